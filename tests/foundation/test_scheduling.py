"""A cluster's processes ask for short slices of time, where the system has them to give."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys

import pytest

from odradek.foundation import scheduling
from odradek.foundation.linux_calls import c_library

# Prints the slices of all threads after the wish, one that begins later among them.
PROGRAM = """
import os, sys, threading
from odradek.foundation import scheduling
from odradek.foundation.linux_calls import c_library
from odradek.foundation.scheduling import _ATTRIBUTES, _CALLS, _Attributes, _call

stay = threading.Event()
threading.Thread(target=stay.wait).start()
print(scheduling.ask_for_slices(scheduling.SHORT_NANOSECONDS))
threading.Thread(target=stay.wait).start()
import ctypes, platform
library = ctypes.CDLL(None, use_errno=True)
for thread in os.listdir("/proc/self/task"):
    known = bytearray(_ATTRIBUTES.size)
    _call(library, _CALLS[platform.machine()][1], int(thread), known, _ATTRIBUTES.size, 0)
    attributes = _Attributes(*_ATTRIBUTES.unpack(known))
    print(attributes.runtime, attributes.nice)
stay.set()
"""


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])


@pytest.mark.skipif(
    c_library() is None or platform.machine() not in scheduling._CALLS,
    reason="not a system that has them",
)
def test_every_thread_gets_them_and_keeps_its_niceness() -> None:
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    taken, *threads = done.stdout.splitlines()
    assert len(threads) == 3
    if taken == "False":
        pytest.skip(f"this system does not let a process ask: {done.stderr}")
    if _kernel() >= (6, 12):
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        assert set(threads) == {f"{scheduling.SHORT_NANOSECONDS} {niceness}"}


def test_a_system_that_refuses_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(scheduling, "_ask", refuse)
    monkeypatch.setattr(scheduling, "_CALLS", {platform.machine(): (1, 2)})
    with caplog.at_level("INFO"):
        assert not scheduling.ask_for_slices(scheduling.SHORT_NANOSECONDS)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_another_processor_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "_CALLS", {})
    assert not scheduling.ask_for_slices(scheduling.SHORT_NANOSECONDS)


def test_another_system_is_asked_for_nothing_but_niceness(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(os, "nice", steps.append)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert c_library() is None
    assert not scheduling.ask_for_slices(scheduling.LONG_NANOSECONDS)
    scheduling.yield_to_others()
    assert steps == [scheduling._NICENESS]
