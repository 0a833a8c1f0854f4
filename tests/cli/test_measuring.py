"""`odradek perf` that a signal ends: the figures until then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from odradek.cli.exit_codes import ExitCode
from odradek.cli.records import measuring, perf_run
from odradek.cli.records.measuring import Measurement, measure_consume, measure_produce
from odradek.cli.shared.progress import ProgressBar
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from tests.cli.conftest import Shell
from tests.support.polling import eventually

pytestmark = pytest.mark.integration


def test_records_that_are_acknowledged_count_when_it_is_cancelled(
    shell: Shell, bootstrap: str, unique: str
) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    seen: list[Measurement] = []

    async def cancel_in_the_middle() -> None:
        async with Client(bootstrap) as client, Producer(client) as producer:
            run = asyncio.create_task(
                measure_produce(
                    producer,
                    unique,
                    record_count=10**9,
                    value_bytes=10,
                    rate=1000,
                    random=Random(1),
                    on_interrupt=seen.append,
                )
            )
            await eventually("a record is written", lambda: producer.progress.written > 0)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    asyncio.run(cancel_in_the_middle())
    (found,) = seen
    assert found.is_interrupted
    assert 0 < found.records < 10**9
    assert found.size_bytes == 10 * found.records


def test_records_that_are_read_count_when_it_is_cancelled(
    shell: Shell, bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="a\nb\n")
    seen: list[Measurement] = []

    class CancellingBar(ProgressBar):
        def advance(self, count: int, *, part: int | None = None) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    monkeypatch.setattr(measuring, "ProgressBar", CancellingBar)

    async def run() -> None:
        async with Client(bootstrap) as client:
            await measure_consume(
                client,
                unique,
                record_count=3,
                partition_bytes=1 << 20,
                is_decoding=True,
                on_interrupt=seen.append,
            )

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert [(one.records, one.is_interrupted) for one in seen] == [(2, True)]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_a_signal_prints_the_figures(
    shell: Shell,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: ExitCode,
) -> None:
    async def be_interrupted(*_: Any, on_interrupt: Callable[[Measurement], None], **__: Any) -> Measurement:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            on_interrupt(Measurement(3, 30, 1.5, (1.0,), is_interrupted=True))
            raise
        raise AssertionError("nobody has cancelled it")

    monkeypatch.setattr(perf_run, "measure_consume", be_interrupted)
    document = json.loads(shell.run("perf", "consume", unique, "--output", "json", code=code))
    assert (document["records"], document["records_per_second"], document["is_interrupted"]) == (3, 2.0, True)
    printed = shell.run("perf", "consume", unique, code=code)
    assert printed.splitlines()[:2] == [
        "3 records, 30 B in 1.50 s: 2 records/s, 20 B/s",
        "interrupted: these are the figures until then",
    ]
