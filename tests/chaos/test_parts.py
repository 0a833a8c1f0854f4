"""Parts of chaos by themselves: schedules replay, sessions end, proxies block traffic between named processes."""

from __future__ import annotations

import operator
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState

from tests.chaos.epoch_ends import answered_epoch_ends
from tests.chaos.error_log import Found, new_errors
from tests.chaos.network import CLIENTS
from tests.chaos.processes import Process
from tests.chaos.proxies import Proxies, inode_of
from tests.chaos.schedule import Kind, plan
from tests.chaos.sessions import end_session, password_of
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

SILENCE_SECONDS = 0.3
PATIENCE_SECONDS = 30


def test_a_seed_decides_a_schedule() -> None:
    assert plan(7, 60) == plan(7, 60)
    assert plan(7, 60) != plan(8, 60)


@pytest.mark.parametrize("seed", range(20))
def test_all_faults_of_a_schedule_are_over_by_its_end(seed: int) -> None:
    planned = plan(seed, 30)
    assert 6 <= len(planned) <= 40
    assert all(fault.at_seconds + fault.lasts_seconds <= 30.02 for fault in planned)
    assert [fault.at_seconds for fault in planned] == sorted(fault.at_seconds for fault in planned)


# Ends cleanly once `may-end` is there; at a second signal at once, as a broker does.
STOPPING_SLOWLY = """
import os, signal, sys, time
signalled = []
def stop(*_):
    if signalled: os._exit(130)
    signalled.append(True)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while not (signalled and os.path.exists(sys.argv[1])): time.sleep(0.01)
"""


class Watched(Process):
    """Notes the signals that are sent."""

    signals: list[int]

    def _signal(self, number: signal.Signals) -> None:
        self.signals.append(number)
        super()._signal(number)


def test_two_stops_of_one_process_wait_for_one_clean_end(tmp_path: Path) -> None:
    may_end = tmp_path / "may-end"
    process = Watched(
        "broker-1",
        [sys.executable, "-c", STOPPING_SLOWLY, str(may_end)],
        log=tmp_path / "log",
        on_started=lambda name, pid: None,
    )
    process.signals = []
    process.start()
    codes: list[int | None] = []
    stopping = [threading.Thread(target=lambda: codes.append(process.stop())) for _ in range(2)]
    try:
        assert process.is_ready.wait(PATIENCE_SECONDS), process.said()
        for count, one in enumerate(stopping, start=1):
            one.start()
            # Each resumes the process first, in case it was paused.
            wait_until(
                "the process is resumed",
                lambda: process.signals.count(signal.SIGCONT),
                partial(operator.le, count),
            )
        may_end.touch()
        for one in stopping:
            one.join(PATIENCE_SECONDS)
        assert codes == [0, 0]
        assert process.signals.count(signal.SIGTERM) == 1
    finally:
        process.kill()


def test_two_minutes_have_every_kind() -> None:
    assert {fault.kind for fault in plan(1, 150)} == set(Kind)


@pytest.mark.integration
def test_a_session_ends_when_its_id_is_known(zookeeper: ZooKeeper) -> None:
    owner = KazooClient(hosts=zookeeper.connect)
    owner.start()
    try:
        session_id, password = owner.client_id
        assert password_of(session_id) == password
        path = f"/alive-{uuid.uuid4()}"
        owner.create(path, ephemeral=True)
        assert owner.exists(path).ephemeralOwner == session_id
        lost = threading.Event()
        owner.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
        assert end_session(zookeeper.host, zookeeper.port, session_id)
        assert lost.wait(PATIENCE_SECONDS)
        assert not end_session(zookeeper.host, zookeeper.port, session_id), "it has ended already"
    finally:
        owner.stop()
        owner.close()


def test_errors_are_found_once_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    assert new_errors(log, 0) == Found([], 0)
    line = "2026-11-21T18:08:49.769Z {level}   odradek.somewhere: {text}\n"
    log.write_text(line.format(level="INFO", text="ERROR is only a word here"))
    log.write_text(
        log.read_text() + line.format(level="ERROR", text="cannot continue: No space left on device")
    )
    first = new_errors(log, 0)
    assert first.errors == []
    half = "Traceback (most recent call last):\n  File x\n"
    log.write_text(log.read_text() + line.format(level="ERROR", text="a thing failed") + half)
    second = new_errors(log, first.read_up_to)
    assert [error.partition(": ")[2] for error in second.errors] == ["a thing failed"]
    log.write_text(log.read_text() + "KeyError: 5\n" + line.format(level="INFO", text="and on"))
    third = new_errors(log, second.read_up_to)
    assert len(third.errors) == 1
    assert third.errors[0].startswith(half + "KeyError: 5")
    assert new_errors(log, third.read_up_to).errors == []


class Echo:
    """A named process's server: sends back what it is sent."""

    def __init__(self, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        self._socket = socket.create_server((host, int(port)))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)

    def close(self) -> None:
        self._socket.close()


# Says words to a port, and prints what comes back within the seconds that are given with each, or "silence".
_CALLER = """
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
connection = socket.create_connection((host, int(port)))
print("up", flush=True)
for line in sys.stdin:
    seconds, word = line.split()
    connection.settimeout(float(seconds))
    try:
        connection.sendall(word.encode())
        print(connection.recv(100).decode() or "closed", flush=True)
    except TimeoutError:
        print("silence", flush=True)
    except OSError:
        print("closed", flush=True)
"""


class Caller:
    """A process that talks to a named one."""

    def __init__(self, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CALLER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def hears(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self, word: str, *, seconds_max: float = PATIENCE_SECONDS) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds_max} {word}\n")
        self._process.stdin.flush()
        return self.hears()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    made = Proxies()
    yield made
    made.close()


@pytest.mark.integration
@pytest.mark.parametrize("is_named_first", [True, False])
def test_a_proxy_blocks_only_between_the_named(proxies: Proxies, is_named_first: bool) -> None:
    place = proxies.add("target", 0)
    echo = Echo(place.listen)
    callers = [Caller(place.advertised), Caller(place.advertised)]
    try:
        named, unnamed = callers
        if is_named_first:
            proxies.runs_as("named", named.pid)
        # What comes back shows that the proxy has the connection too: until then only the system has.
        assert [caller.hears() for caller in callers] == ["up", "up"]
        assert [caller.say("one") for caller in callers] == ["one", "one"]
        if not is_named_first:
            proxies.runs_as("named", named.pid)
        proxies.cut("target", "named")
        assert named.say("two", seconds_max=SILENCE_SECONDS) == "silence"
        assert unnamed.say("two") == "two"
        proxies.mend("target", "named")
        assert named.say("three") == "closed", "bytes were lost: the connection makes no sense any more"
        proxies.cut(CLIENTS, "target")
        assert unnamed.say("three", seconds_max=SILENCE_SECONDS) == "silence"
    finally:
        for caller in callers:
            caller.close()
        echo.close()


@pytest.mark.integration
def test_a_port_that_reaches_two_servers_has_two_owners() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        first, second = socket.socket(), socket.socket()
        with first, second:
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            first.bind(("127.0.0.1", 0))
            first.connect(one.getsockname())
            port = first.getsockname()[1]
            second.bind(("127.0.0.1", port))
            second.connect(other.getsockname())
            for client, server in ((first, one), (second, other)):
                inode = inode_of(port, server.getsockname()[1])
                assert inode == str(os.fstat(client.fileno()).st_ino)


def test_what_a_broker_says_of_where_epochs_ended_is_read_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text(
        "2026-11-21T21:46:59.853Z DEBUG   odradek.broker.requests.offset_for_leader_epoch: "
        "records-7-round-3-0: epoch 6 ended at 2892, says the leader of epoch 7\n"
        "2026-11-21T21:46:59.854Z DEBUG   odradek.broker.requests.offset_for_leader_epoch: "
        "records-7-round-2-0: epoch 1 ended at 5, says the leader of epoch 2\n"
    )
    (answered,) = answered_epoch_ends("broker-1", log, topic="records-7-round-3")
    assert (answered.partition, answered.epoch, answered.end_offset, answered.leader_epoch) == (0, 6, 2892, 7)
    said_at = datetime(2026, 11, 21, 21, 46, 59, 853_000, tzinfo=UTC).timestamp()
    assert answered.at - time.monotonic() == pytest.approx(said_at - time.time(), abs=1.0)
