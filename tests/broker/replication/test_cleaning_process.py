"""The process that compacts: what it takes from others, and its death in the middle of a round."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from odradek.broker.replication.cleaner import WorkerDied
from odradek.broker.replication.cleaning_work import ProcessWork
from odradek.foundation import interpreter
from odradek.storage.compaction.candidates import cleanable, task_for
from odradek.storage.compaction.frames import encode_frame
from odradek.storage.compaction.task import NO_RATE_LIMIT, CleanedRun, CleaningSummary, CleaningTask
from odradek.storage.config import LogConfig
from odradek.storage.files import SystemDisk
from odradek.storage.log import Log, Origin
from odradek.wire.records.builder import build_batch
from tests.support.logs import START_MS, open_log, stored_records
from tests.support.polling import eventually
from tests.support.stories import told_by

pytestmark = pytest.mark.thorough

CONFIG = LogConfig(cleanup_compact=True, cleanup_delete=False, segment_bytes=4096, index_interval_bytes=100)
KEYS = 20
NICENESS = 10
# On a busy machine a process at that niceness waits long.
SECONDS_MAX = 300


def filled(directory: Path) -> Log:
    """Runs of small segments, each of which becomes one."""
    log = open_log(SystemDisk(), config=CONFIG, directory=str(directory / "table-0"))
    for number in range(100):
        records = [(START_MS, b"key %d" % key, b"%d" % number) for key in range(KEYS)]
        log.append(build_batch(records), leader_epoch=0, origin=Origin.COORDINATOR)
    log.roll()
    log.flush()
    return log


def reopened(log: Log) -> Log:
    """As after a crash of the broker."""
    log.close()
    return open_log(SystemDisk(), config=CONFIG, directory=log.directory)


def task_of(log: Log, *, bytes_per_second: float = NO_RATE_LIMIT) -> CleaningTask:
    found = cleanable(log, last_stable_offset=log.log_end_offset, now_ms=START_MS)
    return task_for(
        found,
        removal_bound_offset=0,
        now_ms=START_MS,
        map_bytes=1 << 20,
        map_load_factor=0.9,
        window_bytes=4096,
        bytes_per_second=bytes_per_second,
    )


async def swap_all(work: ProcessWork, log: Log, task: CleaningTask) -> CleaningSummary:
    summary = CleaningSummary()
    by_base = {segment.base_offset: segment for segment in log.segments.all}
    async with aclosing(work.runs(task, summary)) as runs:
        async for run in runs:
            log.swap_segments([by_base[base] for base in run.replaced], run.base_offsets)
    return summary


def process_of(work: ProcessWork) -> psutil.Process:
    assert work._process is not None
    return psutil.Process(work._process.pid)


def cleaned_files(log: Log) -> list[str]:
    return [name for name in os.listdir(log.directory) if name.endswith(".cleaned")]


def last_values(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in stored_records(log)}


async def until(is_so: Callable[[], bool]) -> None:
    await eventually("the cleaner is so far", is_so, seconds_max=SECONDS_MAX)


def with_work(story: Callable[[ProcessWork], Awaitable[None]]) -> None:
    async def run() -> None:
        work = ProcessWork()
        try:
            await story(work)
        finally:
            await work.close()

    asyncio.run(run())


def test_it_takes_what_others_leave(tmp_path: Path) -> None:
    log = filled(tmp_path)

    async def story(work: ProcessWork) -> None:
        await swap_all(work, log, task_of(log))
        process = process_of(work)
        assert process.nice() == min(psutil.Process().nice() + NICENESS, 19)
        assert process.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE

    with_work(story)
    assert len(stored_records(log)) == KEYS


@pytest.mark.parametrize("is_broker_killed_too", [False, True])
@told_by(with_work)
async def test_killed_in_a_round_it_leaves_a_log_that_is_whole(
    work: ProcessWork, tmp_path: Path, is_broker_killed_too: bool
) -> None:
    log = filled(tmp_path)
    whole = last_values(log)
    # Slow enough that the second run is being written when the process is killed.
    task = task_of(log, bytes_per_second=log.size_bytes * 2)
    by_base = {segment.base_offset: segment for segment in log.segments.all}
    swapped: list[CleanedRun] = []

    async def work_until_it_dies() -> None:
        async with aclosing(work.runs(task, CleaningSummary())) as runs:
            async for run in runs:
                log.swap_segments([by_base[base] for base in run.replaced], run.base_offsets)
                swapped.append(run)

    round_under_way = asyncio.ensure_future(work_until_it_dies())
    await until(lambda: bool(swapped) and bool(cleaned_files(log)))
    process_of(work).send_signal(signal.SIGKILL)
    with pytest.raises(WorkerDied):
        await round_under_way
    assert cleaned_files(log)
    again = log
    if is_broker_killed_too:
        again = reopened(log)
        assert cleaned_files(again) == []
    assert last_values(again) == whole
    summary = await swap_all(work, again, task_of(again))
    assert summary.next_dirty_offset == again.log_end_offset
    assert last_values(again) == whole
    assert len(stored_records(again)) == KEYS
    assert cleaned_files(again) == []


@told_by(with_work)
async def test_it_ends_with_its_broker(work: ProcessWork, tmp_path: Path) -> None:
    """A process that continues alone would write into a directory that another broker may own by then."""
    log = filled(tmp_path)
    await swap_all(work, log, task_of(log))
    process = process_of(work)
    assert process.is_running()
    await work.close()
    assert not process.is_running()


def test_it_ends_in_silence_when_its_broker_is_killed(tmp_path: Path) -> None:
    """The pipe may lose its reader a moment before the signal of the broker's death comes."""
    log = filled(tmp_path)
    reader, writer = os.pipe()
    worker = subprocess.Popen(
        interpreter.command("odradek.storage.compaction.worker", str(os.getpid())),
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=interpreter.environment(),
    )
    os.close(reader)
    os.close(writer)
    _, said = worker.communicate(encode_frame(task_of(log)), timeout=SECONDS_MAX)
    assert said == b""
    assert worker.returncode == 0
