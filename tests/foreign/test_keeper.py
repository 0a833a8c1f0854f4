"""A broker that hangs under a foreign test says where before it is ended."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign.keeper import Node
from tests.support.polling import wait_until

_LISTENS = """
import contextlib, socket, sys, time
listening = socket.create_server(("localhost", int(sys.argv[1])))
def spin():
    while True:
        time.sleep(0.001)
def answer():
    while True:
        accepted, _ = listening.accept()
        with accepted, contextlib.suppress(OSError):
            accepted.recv(100)
            accepted.sendall(b"answer")
globals()[sys.argv[2]]()
"""


class _StandIn(Node):
    """A process that listens like a broker, and then does what `does` names."""

    def __init__(self, folder: Path, does: str) -> None:
        super().__init__(folder, "start", 0, {})
        self._does = does

    def begin(self) -> None:
        command = [sys.executable, "-X", "faulthandler", "-c", _LISTENS, str(self.port), self._does]
        self.spawn(command, env={}, stdout=subprocess.DEVNULL)
        wait_until("it listens", self._listens, seconds_max=30, pause_seconds=0.01)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("localhost", self.port)) == 0


@pytest.mark.parametrize(("does", "is_said"), [("spin", True), ("answer", False)])
def test_only_a_process_that_hangs_is_aborted_and_says_where(
    tmp_path: Path, does: str, is_said: bool
) -> None:
    node = _StandIn(tmp_path, does)
    node.begin()
    node.end(answer_seconds_max=0.1 if is_said else 30.0)
    assert not node.is_running
    assert ("in spin" in node.log()) is is_said


def test_one_that_has_ended_is_not_aborted(tmp_path: Path) -> None:
    node = _StandIn(tmp_path, "answer")
    node.begin()
    node.kill()
    node.end()
    assert node.log() == ""


def test_a_node_writes_its_stacks_when_it_is_aborted(tmp_path: Path) -> None:
    assert Node(tmp_path, "broker", 1, {}).command()[1:3] == ["-X", "faulthandler"]
