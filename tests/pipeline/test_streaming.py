"""The loop of a stream with virtual time: no Spark, no broker; the log of manifests is the real one."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, JobRefusedError, UnreachableError
from odradek_pipeline.loading.settings import StreamSettings
from odradek_pipeline.loading.stream import TRIES_MAX, StopRequest, Stream
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.outputs.parquet.log import ManifestLog
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.record import LOAD, RunRecord
from odradek_pipeline.runs.steps import BATCH, CONNECTED, FINISHED, Steps
from odradek_pipeline.settings.declared import make_settings
from tests.pipeline.test_histories import MemoryStore


class VirtualStop(StopRequest):
    """A clock that jumps to where the loop waits for, and calls `script` with each wait's number before."""

    def __init__(self, script: Callable[[int], None], waits_max: int) -> None:
        super().__init__()
        self.now, self.waits, self._script, self._waits_max = 0.0, 0, script, waits_max

    def now_seconds(self) -> float:
        return self.now

    def wait_until(self, moment_seconds: float) -> None:
        self.now = max(self.now, moment_seconds)
        self.waits += 1
        self._script(self.waits)
        if self.waits == self._waits_max:
            self.signal = signal.SIGTERM


class TableInMemory:
    """Manifests without files. `is_covered` is what another program's commit would make it."""

    def __init__(self) -> None:
        self.log = ManifestLog(MemoryStore(), lambda: 0)
        self.looks, self.is_covered, self.refusals = 0, False, 0

    def read_newest(self) -> OutputState:
        self.looks += 1
        found = self.log.read_newest()
        return (
            OutputState(None, 0)
            if found is None
            else OutputState(found.record, found.version, self.is_covered)
        )


@dataclass(frozen=True)
class WorkerInMemory:
    """What a stream asks of a worker. `end` is the log's end, or what the brokers' answer raises."""

    output: TableInMemory
    steps: Steps
    ends: list[int | Exception]
    connection: Any = None
    committed: list[RunRecord] = field(default_factory=list)

    def read_facts(self, topics: Sequence[str], start: Any, stop: Any, settings: Any) -> list[LogFacts]:
        (end,) = self.ends
        if isinstance(end, Exception):
            raise end
        self.steps(CONNECTED)
        return [LogFacts("t", "id", "c", {0: 0}, {0: end}, {0: end})]

    def commit(self, known: OutputState, record: RunRecord, settings: Any) -> Committed:
        if self.output.refusals:
            self.output.refusals -= 1
            raise FencedError("another run was faster")
        manifest = self.output.log.publish(known.version, record, [], [])
        self.committed.append(manifest.record)
        self.output.is_covered = False
        self.steps(FINISHED)
        return Committed(manifest.record, manifest.version, record.span, 0, 0)


class Notices:
    """A console that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.reached: list[str] = []

    def steps(self, name: str, /, **figures: object) -> None:
        self.reached.append(name)

    def watch(self, spark: Any) -> None:
        """Nothing to show."""

    def notice(self, text: str) -> None:
        self.said.append(text)


def played(
    worker: WorkerInMemory,
    console: Notices,
    script: Callable[[int], None] = lambda wait: None,
    waits: int = 3,
    **settings: Any,
) -> tuple[VirtualStop, Any]:
    """A stream until so many waits are over; its clock and its summary."""
    given = {"topic": "t", "output": "/tables/o", "show_progress": False, **settings}
    stop = VirtualStop(script, waits)
    declared = make_settings(StreamSettings, {name: (value, "the test") for name, value in given.items()})
    work: Any = worker
    commit: Any = WorkerInMemory.commit
    return stop, Stream(work, declared, console, stop, commit).run()


def worker(console: Notices, end: int | Exception = 0) -> WorkerInMemory:
    return WorkerInMemory(TableInMemory(), console.steps, [end])


def test_a_batch_begins_with_a_trigger_and_idle_ones_leave_the_table() -> None:
    console = Notices()
    work = worker(console, 5)

    def script(wait: int) -> None:
        if wait == 4:
            work.ends[0] = 9

    stop, summary = played(work, console, script, waits=5, trigger="30s")
    assert stop.now == 150
    assert [record.span for record in work.committed] == [5, 4]
    assert (summary.facts["batches"], summary.facts["rows"], summary.facts["stopped_by"]) == (2, 9, "SIGTERM")
    assert work.output.looks == 3, "at the start, and before each batch"
    assert console.reached == [BATCH, BATCH, FINISHED]


def test_a_batch_waits_for_offsets_but_not_for_ever() -> None:
    console = Notices()
    work = worker(console, 3)
    settings: dict[str, Any] = {"trigger": "10s", "min_offsets_per_trigger": 10, "max_trigger_delay": "1m"}
    played(work, console, waits=6, **settings)
    assert work.committed == []
    played(work, console, waits=7, **settings)
    assert [record.span for record in work.committed] == [3]
    work.ends[0] = 13
    played(work, console, waits=1, **settings)
    assert [record.span for record in work.committed] == [3, 10]


def test_an_outage_ends_a_stream_after_a_while() -> None:
    console = Notices()
    work = worker(console, UnreachableError("no broker"))

    def script(wait: int) -> None:
        work.ends[0] = 4 if wait == 5 else UnreachableError("no broker")

    with pytest.raises(UnreachableError):
        played(work, console, script, waits=99, trigger="10s", max_outage="1m")
    assert [record.span for record in work.committed] == [4], "it was back in between"
    assert len(console.said) == 5 + 6
    with pytest.raises(UnreachableError):
        played(work, console, waits=1, available_now=True)


def test_a_quiet_stream_repeats_its_record_above_commits_of_others() -> None:
    console = Notices()
    work = worker(console, 5)

    def script(wait: int) -> None:
        if wait == 2:
            work.output.is_covered = True

    played(work, console, script, waits=15, trigger="1m")
    assert [record.kind for record in work.committed] == ["stream", "refresh"]
    assert work.committed[1].holdings == work.committed[0].holdings
    assert work.committed[1].queries == work.committed[0].queries


def test_runs_that_overtake_are_followed_a_few_times() -> None:
    console = Notices()
    work = worker(console, 5)
    work.output.refusals = TRIES_MAX - 1
    played(work, console, waits=1)
    assert len(work.committed) == 1
    work.output.refusals, work.ends[0] = TRIES_MAX, 6
    with pytest.raises(FencedError, match="was faster"):
        played(work, console, waits=1)


def test_a_second_signal_ends_the_batch_at_once() -> None:
    stop = StopRequest()
    stop.handle(signal.SIGTERM, None)
    assert stop.signal is signal.SIGTERM
    with pytest.raises(KeyboardInterrupt):
        stop.handle(signal.SIGINT, None)


def test_a_table_of_last_values_takes_no_batch() -> None:
    console = Notices()
    work = worker(console, 5)
    played(work, console, waits=1)
    known = work.output.read_newest()
    assert known.record is not None
    snapshot = RunRecord("r", LOAD, 2, "c", (), known.holdings, 0, snapshots={"t": 1})
    other = TableInMemory()
    other.log.publish(0, snapshot, [], [])
    work = WorkerInMemory(other, console.steps, [9])
    with pytest.raises(JobRefusedError, match="the last values of keys"):
        played(work, console, waits=1)
