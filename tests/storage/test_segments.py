"""When a segment is closed, which segments go, and what happens to their files."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import OffsetOutOfRange
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from tests.support.disk import SimulatedDisk
from tests.support.logs import (
    DIRECTORY,
    START_MS,
    StillClock,
    batch,
    open_log,
    stored_records,
)


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments.all]


def _names(disk: SimulatedDisk, suffix: str) -> list[str]:
    return sorted(entry.name for entry in disk.entries(DIRECTORY) if entry.name.endswith(suffix))


def test_a_segment_is_closed_before_it_would_become_too_large() -> None:
    size = len(batch(b"x" * 100))
    log = open_log(SimulatedDisk(), config=LogConfig(segment_bytes=size * 3))
    for _ in range(7):
        log.append(batch(b"x" * 100), leader_epoch=0)
    assert _bases(log) == [0, 3, 6]


def test_a_segment_is_closed_by_the_records_own_time() -> None:
    clock = StillClock()
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(segment_ms=1000))
    for late_ms in (0, 1000, 1001, 500, 2002):
        log.append(batch(timestamp_ms=START_MS + late_ms), leader_epoch=0)
    assert _bases(log) == [0, 2, 4]


def test_a_segment_without_times_is_closed_by_the_brokers() -> None:
    clock = StillClock()
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(segment_ms=1000))
    log.append(batch(timestamp_ms=-1), leader_epoch=0)
    clock.advance(1000)
    log.append(batch(timestamp_ms=-1), leader_epoch=0)
    clock.advance(1)
    log.append(batch(timestamp_ms=-1), leader_epoch=0)
    assert _bases(log) == [0, 2]


def test_a_segment_is_closed_when_an_index_is_full() -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(segment_index_bytes=80, index_interval_bytes=0))
    for _ in range(25):
        log.append(batch(timestamp_ms=START_MS), leader_epoch=0)
    # Ten entries of eight bytes; a segment's first batch has none.
    assert _bases(log) == [0, 11, 22]


def test_a_segment_is_closed_before_offsets_no_longer_fit_its_index() -> None:
    log = open_log(SimulatedDisk())
    log.append_as_follower(bytes(batch(base_offset=10, leader_epoch=0)))
    log.append_as_follower(bytes(batch(base_offset=2**31 - 1, leader_epoch=0)))
    log.append_as_follower(bytes(batch(base_offset=2**31, leader_epoch=0)))
    assert _bases(log) == [0, 2**31]
    fresh = open_log(SimulatedDisk())
    fresh.append_as_follower(bytes(batch(base_offset=2**40, leader_epoch=0)))
    assert _bases(fresh) == [2**40]
    assert stored_records(fresh, from_offset=2**40)[0].offset == 2**40


def _aged(clock: StillClock, disk: SimulatedDisk, **settings: Any) -> Log:
    """Five segments of one record each, a second apart, and the active one."""
    log = open_log(disk, clock=clock, config=LogConfig(file_delete_delay_ms=5000, **settings))
    for second in range(6):
        log.append(batch(b"x" * 100, timestamp_ms=START_MS + second * 1000), leader_epoch=0)
        if second < 5:
            log.roll()
    return log


def test_retention_by_time() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk, retention_ms=10_000)
    clock.advance(10_000)
    assert log.delete_old_segments() == 0
    clock.advance(1001)
    assert log.delete_old_segments() == 2
    assert (log.log_start_offset, _bases(log)) == (2, [2, 3, 4, 5])
    with pytest.raises(OffsetOutOfRange):
        log.read(1, bytes_max=10)


def test_a_segment_whose_records_have_no_time_ages_by_its_file() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = open_log(disk, clock=clock, config=LogConfig(retention_ms=1000))
    log.append(batch(timestamp_ms=-1), leader_epoch=0)
    log.roll()
    assert log.delete_old_segments(1) == 0
    clock.advance(1001)
    assert log.delete_old_segments(1) == 1


def test_retention_may_delete_the_whole_log() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk, retention_ms=10_000)
    clock.advance(100_000)
    assert log.delete_old_segments() == 6
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (6, 6, 0)
    assert log.delete_old_segments() == 0
    assert log.append(batch(timestamp_ms=START_MS + 100_000), leader_epoch=0).first_offset == 6


def test_retention_by_size() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk)
    one = log.segments.first.size_bytes
    log.reconfigure(LogConfig(retention_ms=-1, retention_bytes=one * 4 - 1))
    assert log.delete_old_segments() == 2
    log.reconfigure(LogConfig(retention_ms=-1, retention_bytes=one * 2))
    assert log.delete_old_segments() == 2
    assert log.log_start_offset == 4


def test_retention_keeps_uncommitted_and_compacted_records() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk, retention_ms=10_000)
    clock.advance(100_000)
    assert log.delete_old_segments(high_watermark=3) == 3
    log.reconfigure(LogConfig(retention_ms=1, cleanup_delete=False, cleanup_compact=True))
    assert log.delete_old_segments() == 0
    log.advance_log_start(5)
    assert log.delete_old_segments() == 2


def test_deleted_files_are_renamed_first_and_removed_later() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk)
    log.advance_log_start(2)
    assert log.delete_old_segments() == 2
    assert len(_names(disk, ".log")) == 4
    assert len(_names(disk, ".log.deleted")) == 2
    assert not [name for name in _names(disk, ".index") if name.startswith("0" * 20)]
    assert not log.segments.pop_due_deletes(clock.monotonic_seconds() + 4.9)
    due = log.segments.pop_due_deletes(clock.monotonic_seconds() + 5.0)
    assert sorted(due) == [f"{DIRECTORY}/{name}" for name in _names(disk, ".deleted")]


def test_what_a_crash_left_half_deleted_is_removed_at_the_next_start() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    log = _aged(clock, disk)
    log.advance_log_start(2)
    log.delete_old_segments()
    disk.put(f"{DIRECTORY}/00000000000000000009.index", b"stray")
    disk.put(f"{DIRECTORY}/00000000000000000003.log.cleaned", b"half a compaction")
    disk.kill()
    log = open_log(disk)
    assert log.log_start_offset == 2
    assert not _names(disk, ".deleted") and not _names(disk, ".cleaned")
    assert len(_names(disk, ".index")) == 4


def test_delete_records_moves_the_start_and_survives_a_restart() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(10):
        log.append(batch(), leader_epoch=0)
    log.advance_log_start(7)
    log.advance_log_start(3)
    assert log.log_start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(11)
    log.close()
    log = open_log(disk, clean=True, log_start_offset=7)
    assert [record.offset for record in stored_records(log)] == [7, 8, 9]
    found = log.offset_for_timestamp(0)
    assert found is not None and found.offset == 7


def test_truncate_fully_and_start_elsewhere() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(5):
        log.append(batch(producer_id=1, producer_epoch=0, base_sequence=_), leader_epoch=3)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 100)
    assert len(log.epochs) == 0 and not log.producers.entries()
    log.append(batch(), leader_epoch=4)
    disk.kill()
    log = open_log(disk)
    assert [record.offset for record in stored_records(log)] == [100]


def test_truncation_forgets_epochs_and_producers() -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(segment_bytes=300))
    for number in range(10):
        log.append(
            batch(b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number),
            leader_epoch=number // 4,
        )
    log.truncate_to(6)
    assert (log.log_end_offset, log.epochs.latest_epoch) == (6, 1)
    again = log.append(batch(b"6", producer_id=1, producer_epoch=0, base_sequence=6), leader_epoch=5)
    assert (again.is_duplicate, again.first_offset) == (False, 6)
    assert log.end_offset_for_epoch(1) == (1, 6)
    assert log.end_offset_for_epoch(5) == (5, 7)


def test_a_flush_that_a_truncation_overtook_promises_nothing() -> None:
    log = open_log(SimulatedDisk())
    for _ in range(5):
        log.append(batch(), leader_epoch=0)
    flush = log.begin_flush()
    assert flush is not None
    flush.sync()
    log.truncate_to(2)
    log.append(batch(b"other"), leader_epoch=1)
    log.end_flush(flush)
    assert log.recovery_point <= 2


def test_a_flush_is_due_by_time_and_after_a_roll() -> None:
    clock = StillClock()
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(flush_ms=1000))
    assert not log.is_flush_due(clock.wall_ms() + 10_000)
    log.append(batch(), leader_epoch=0)
    assert not log.is_flush_due(clock.wall_ms() + 999)
    assert log.is_flush_due(clock.wall_ms() + 1000)
    clock.advance(1000)
    log.flush()
    assert not log.is_flush_due(clock.wall_ms() + 5000)
    log.append(batch(), leader_epoch=0)
    log.roll()
    assert log.is_flush_due(clock.wall_ms())


def test_a_flush_is_due_once_the_clock_was_set_back() -> None:
    clock = StillClock()
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(flush_ms=1000))
    log.append(batch(), leader_epoch=0)
    assert log.is_flush_due(clock.wall_ms() - 3_600_000)


def test_a_flush_makes_the_indexes_of_closed_segments_safe() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=0))
    for number in range(5):
        log.append(batch(timestamp_ms=START_MS + number), leader_epoch=0)
    log.roll()
    log.append(batch(timestamp_ms=START_MS), leader_epoch=0)
    log.flush()
    sizes = {suffix: len(disk.read(f"{DIRECTORY}/{0:020d}.{suffix}")) for suffix in ("index", "timeindex")}
    assert min(sizes.values()) > 0
    disk.crash()
    # No segment below the recovery point is scanned: what its indexes lack then stays unknown.
    log = open_log(disk, recovery_point=log.recovery_point)
    for suffix, size_bytes in sizes.items():
        assert len(disk.read(f"{DIRECTORY}/{0:020d}.{suffix}")) == size_bytes
    assert log.highest_timestamp == START_MS + 4


def test_epochs_below_the_start_are_forgotten_when_a_log_is_opened() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for epoch in (1, 2, 5):
        log.append(batch(b"a", b"b"), leader_epoch=epoch)
    log.close()
    log = open_log(disk, clean=True, log_start_offset=3)
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 3), (5, 4)]


def test_only_so_many_closed_segments_keep_their_files_open() -> None:
    from odradek.foundation.limits import CLOSED_SEGMENTS_OPEN_MAX

    count = CLOSED_SEGMENTS_OPEN_MAX + 40
    log = open_log(SimulatedDisk())
    for number in range(count):
        log.append(batch(b"%d" % number), leader_epoch=0)
        log.roll()
    log.append(batch(), leader_epoch=0)
    slices = [log.read(offset, bytes_max=1000) for offset in range(count)]
    opened = [segment for segment in log.segments.all if segment._file is not None]
    assert len(opened) <= CLOSED_SEGMENTS_OPEN_MAX + 1
    assert log.segments.active in opened
    assert all(slice_.read() for slice_ in slices)
    assert len(stored_records(log)) == count + 1


def test_the_newest_time_is_that_of_a_committed_record() -> None:
    log = open_log(SimulatedDisk())
    for timestamp_ms in (1000, 3000, 2000, 4000):
        log.append(batch(timestamp_ms=timestamp_ms), leader_epoch=0)
    for limit, expected in ((4, (3, 4000)), (3, (1, 3000)), (1, (0, 1000))):
        found = log.offset_of_max_timestamp(offset_limit=limit)
        assert found is not None
        assert found[:2] == expected
    assert log.offset_of_max_timestamp(offset_limit=0) is None
