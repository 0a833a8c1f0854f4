"""log.cleaner.io.max.bytes.per.second: what a round reads and writes takes at least its time."""

from __future__ import annotations

import random

import pytest

from odradek.storage.compaction.candidates import cleanable, task_for
from odradek.storage.compaction.cleaning import Means, clean
from odradek.storage.compaction.offset_map import PlainOffsetMap
from odradek.storage.compaction.task import NO_RATE_LIMIT, CleaningSummary
from odradek.storage.compaction.worker import ThroughputThrottle
from tests.support.compaction import CONFIG, Writer
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, open_log


class VirtualTime:
    """Seconds that pass by waiting alone."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def seconds(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def seconds_of_a_round(bytes_per_second: float) -> tuple[float, CleaningSummary]:
    disk, clock, time = SimulatedDisk(), StillClock(), VirtualTime()
    log = open_log(disk, clock=clock, config=CONFIG)
    writer = Writer(log, random.Random(3), clock=clock)
    for _ in range(300):
        writer.step()
    writer.end_all()
    log.roll()
    found = cleanable(log, last_stable_offset=log.log_end_offset, now_ms=clock.wall_ms())
    task = task_for(
        found,
        removal_bound_offset=0,
        now_ms=clock.wall_ms(),
        map_bytes=1 << 20,
        map_load_factor=0.9,
        window_bytes=4096,
        bytes_per_second=bytes_per_second,
    )
    throttle = ThroughputThrottle(task.bytes_per_second, seconds=time.seconds, wait=time.wait)
    offset_map = PlainOffsetMap(
        capacity_bytes=1 << 20, load_factor=0.9, records_max=1000, keys_directory=None
    )
    means = Means(disk=disk, offset_map=offset_map, spend=throttle.spend, seconds=time.seconds)
    summary = CleaningSummary()
    by_base = {segment.base_offset: segment for segment in found.segments}
    for run in clean(task, means, summary):
        log.swap_segments([by_base[base] for base in run.replaced], run.base_offsets)
    return time.now - 1000.0, summary


@pytest.mark.parametrize("bytes_per_second", [1000, 50_000])
def test_reads_and_writes_keep_to_the_rate(bytes_per_second: int) -> None:
    seconds, summary = seconds_of_a_round(bytes_per_second)
    moved = summary.bytes_read + summary.bytes_written
    assert summary.bytes_read > 0 and summary.bytes_written > 0
    assert seconds == pytest.approx(moved / bytes_per_second)
    assert summary.map_seconds + summary.write_seconds == pytest.approx(seconds)


def test_without_a_rate_nothing_waits() -> None:
    seconds, _ = seconds_of_a_round(NO_RATE_LIMIT)
    assert seconds < 1e-9


def test_time_that_was_not_used_is_lost() -> None:
    """After a pause no burst of all that was saved hits the disk."""
    time = VirtualTime()
    throttle = ThroughputThrottle(100, seconds=time.seconds, wait=time.wait)
    throttle.spend(50)
    time.now += 3600
    throttle.spend(200)
    assert time.waits == pytest.approx([0.5, 2.0])
