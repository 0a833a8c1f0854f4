"""What a machine does about the ends of its processes, with small programs in place of brokers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.server.machine import supervisor
from odradek.server.machine.process import Process
from odradek.server.machine.supervisor import Supervisor

SECONDS_MAX = 30.0
# Each reads its first line, as a broker does. The last one stops at SIGTERM.
ENDS_AT_ONCE = "input(); raise SystemExit(2)"
SERVES_BRIEFLY = "input(); print('ready one', flush=True); raise SystemExit(3)"
SERVES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", input(), flush=True)
while True:
    signal.pause()
"""
SERVES_UNTIL_THE_PIPE_CLOSES = (
    "print('ready', input(), flush=True); import sys; sys.stdin.read(); sys.exit(0)"
)


def process(number: int, program: str) -> Process:
    return Process(
        number,
        [sys.executable, "-c", program],
        new_document=lambda starts: f"start {starts}",
        descriptors=(),
    )


async def supervise(*processes: Process, stop: bool = False) -> tuple[int, list[Mapping[int, str]]]:
    """(exit code, the ready lines as they were reported)."""
    told: list[Mapping[int, str]] = []
    machine = Supervisor(processes)

    def note_ready(lines: Mapping[int, str]) -> None:
        told.append(dict(lines))
        if stop:
            machine.stop()

    async with asyncio.timeout(SECONDS_MAX):
        return await machine.run(note_ready), told


def test_all_start_and_stop_together() -> None:
    code, told = asyncio.run(supervise(process(1, SERVES), process(2, SERVES), stop=True))
    assert code == 0
    assert told == [{1: "ready start 0", 2: "ready start 0"}]


def test_one_that_does_not_start_ends_the_start() -> None:
    serving = process(1, SERVES)
    code, told = asyncio.run(supervise(serving, process(2, ENDS_AT_ONCE)))
    assert (code, told) == (2, [])
    assert serving.pid is None


def test_one_that_ends_too_often_ends_the_machine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "PROCESS_PAUSE_SECONDS", 0.01)
    serving = process(1, SERVES)
    code, told = asyncio.run(supervise(serving, process(2, SERVES_BRIEFLY)))
    assert code == 3
    assert len(told) == 1
    assert serving.pid is None
    assert caplog.text.count("it starts again in") == 5
    assert "the machine stops" in caplog.text


def test_one_that_is_killed_starts_again_and_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "PROCESS_PAUSE_SECONDS", 0.01)

    async def story() -> int:
        starts: list[int] = []
        is_again = asyncio.Event()

        def document(before: int) -> str:
            starts.append(before)
            if before:
                is_again.set()
            return "start"

        one = Process(1, [sys.executable, "-c", SERVES], new_document=document, descriptors=())
        machine = Supervisor([one])
        async with asyncio.timeout(SECONDS_MAX):
            running = asyncio.ensure_future(machine.run(lambda lines: one.kill()))
            await is_again.wait()
            machine.stop()
            code = await running
        assert starts == [0, 1]
        return code

    assert asyncio.run(story()) == 0


def test_a_process_whose_parent_is_gone_sees_its_pipe_close(tmp_path: Path) -> None:
    async def story() -> int:
        one = process(1, SERVES_UNTIL_THE_PIPE_CLOSES)
        await one.start()
        assert await one.wait_until_ready() == "ready start 0"
        assert one._process is not None and one._process.stdin is not None
        one._process.stdin.close()
        async with asyncio.timeout(SECONDS_MAX):
            return await one.wait_for_end()

    assert asyncio.run(story()) == 0
