"""Segments that others take the place of: with their aborted transactions, for readers, and through every crash."""

from __future__ import annotations

import copy
import errno
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from odradek.foundation.errors import KafkaStorageError
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.storage.segment import SEGMENT_SUFFIXES, Segment
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.logs import (
    DIRECTORY,
    START_MS,
    StillClock,
    batch,
    end_transaction,
    open_log,
    stored_batches,
)
from tests.support.unordered_disk import DiskDied, UnorderedDisk

CONFIG = LogConfig(cleanup_compact=True, index_interval_bytes=0)
# Offsets of the batches that a swap keeps; 3 and 9 are the markers of aborted transactions, 9 and 11 end segments.
KEPT = (1, 3, 6, 9)
END = 14


def _filled(disk: SimulatedDisk) -> Log:
    """Segments 0:[0..3], 4:[4..9], 10:[10, 11] and the active 12:[12, 13]. Each of the first two has an abort."""
    log = open_log(disk, config=CONFIG)

    def transaction(producer_id: int, *, count: int) -> None:
        for sequence in range(count):
            log.append(
                batch(
                    b"%d" % log.log_end_offset,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequence,
                    is_transactional=True,
                ),
                leader_epoch=0,
            )
        end_transaction(log, producer_id, is_commit=False)

    transaction(1, count=3)
    log.roll()
    transaction(2, count=5)
    log.roll()
    for end in (12, END):
        while log.log_end_offset < end:
            log.append(batch(b"%d" % log.log_end_offset), leader_epoch=0)
        if end < END:
            log.roll()
    log.flush()
    disk.sync_directory(DIRECTORY)
    return log


def _clean(disk: SimulatedDisk, log: Log, base: int, offsets: Sequence[int]) -> None:
    """Write the `.cleaned` files of a segment that has these batches of the log, as a cleaner does."""
    name = f"cleaner-{base}"
    kept = [bytes(one.bytes_view) for one in stored_batches(log) if one.base_offset in offsets]
    clock = StillClock()
    cleaner = Log.open(name, log.topic_partition, config=CONFIG, disk=disk, clock=clock, clean=True)
    cleaner.truncate_fully_and_start_at(base)
    for one in kept:
        cleaner.append_as_follower(one)
    aborts = [one for one in log.find_aborted_transactions(0, END) if one.last_offset in offsets]
    (segment,) = cleaner.segments.all
    segment.transaction_index.truncate(0)
    for abort in aborts:
        segment.transaction_index.append(abort)
    cleaner.close()
    for suffix in SEGMENT_SUFFIXES:
        if disk.exists(segment.path + suffix):
            disk.put(f"{DIRECTORY}/{base:020d}{suffix}.cleaned", disk.read(segment.path + suffix))


State = tuple[list[int], list[int], list[tuple[int, ...]]]
"""Base offsets of the segments, base offsets of the batches, and aborts."""


def _state(log: Log) -> State:
    return (
        [segment.base_offset for segment in log.segments.all],
        [one.base_offset for one in stored_batches(log)],
        [one[:3] for one in log.find_aborted_transactions(0, END)],
    )


ABORTS: list[tuple[int, ...]] = [(1, 0, 3), (2, 4, 9)]
OLD: State = ([0, 4, 10, 12], list(range(END)), ABORTS)
MERGED: State = ([0, 10, 12], [*KEPT, 10, 11, 12, 13], ABORTS)
SPLIT: State = ([0, 2, 6, 10, 12], [*KEPT, 10, 11, 12, 13], ABORTS)


def _merge(disk: SimulatedDisk, log: Log) -> list[int]:
    _clean(disk, log, 0, KEPT)
    return [0]


def _split(disk: SimulatedDisk, log: Log) -> list[int]:
    _clean(disk, log, 0, KEPT[:1])
    _clean(disk, log, 2, KEPT[1:2])
    _clean(disk, log, 6, KEPT[2:])
    return [0, 2, 6]


CASES = {"merge": (_merge, MERGED), "split": (_split, SPLIT)}


@pytest.mark.parametrize("case", CASES)
def test_a_run_of_segments_is_replaced_for_readers_and_for_the_next_start(case: str) -> None:
    clean, expected = CASES[case]
    disk = SimulatedDisk()
    log = _filled(disk)
    in_flight = log.read(4, bytes_max=1 << 20)
    bases = clean(disk, log)
    log.swap_segments(log.segments.all[:2], bases)
    assert _state(log) == expected
    assert len(in_flight.read()) == in_flight.size
    assert log.read(2, bytes_max=1).read()[7] == 3, "an offset in a gap gives the batch after it"
    assert disk.paths(".cleaned") == disk.paths(".swap") == []
    # The snapshot at a base offset that is no more goes, the others stay.
    snapshots = [path.rpartition("/")[2] for path in disk.paths(".snapshot") if path.startswith(DIRECTORY)]
    assert snapshots == [f"{base:020d}.snapshot" for base in (10, 12)]
    log.append(batch(b"more"), leader_epoch=0)
    log.close()
    log = open_log(disk, config=CONFIG, clean=True)
    assert _state(log)[0] == expected[0]
    assert [one.base_offset for one in stored_batches(log)] == [*expected[1], END]
    assert log.recovered_bytes == 0


@pytest.mark.thorough
@pytest.mark.parametrize("clean_start", [False, True], ids=["scanned", "not scanned"])
@pytest.mark.parametrize("case", CASES)
def test_a_process_that_dies_in_a_swap_leaves_the_old_run_or_the_new_one(
    case: str, clean_start: bool
) -> None:
    clean, expected = CASES[case]
    seen: list[State] = []
    for step in range(100):
        disk = UnorderedDisk()
        log = _filled(disk)
        bases = clean(disk, log)
        disk.dies_before_call = len(disk.calls) + step
        try:
            log.swap_segments(log.segments.all[:2], bases)
        except DiskDied:
            disk.dies_before_call = None
            disk.kill()
            log = open_log(disk, config=CONFIG, clean=clean_start, recovery_point=END)
            seen.append(_state(log))
            assert disk.paths(".cleaned") == disk.paths(".swap") == []
        else:
            break
    committed = seen.index(expected)
    assert committed > 4
    assert seen == [OLD] * committed + [expected] * (len(seen) - committed)


def _survivors(count: int) -> Iterator[tuple[bool, ...]]:
    """Which of `count` unsynced changes a loss of power keeps: all choices of a few, else some."""
    if count <= 4:
        yield from product((False, True), repeat=count)
        return
    for number in range(count + 1):
        yield tuple(one < number for one in range(count))
        yield tuple(one == number for one in range(count))
        yield tuple(one != number for one in range(count))


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_loss_of_power_in_a_swap_keeps_any_of_its_unsynced_steps(case: str) -> None:
    clean, expected = CASES[case]
    outcomes = set()
    for step in range(100):
        disk = UnorderedDisk()
        log = _filled(disk)
        bases = clean(disk, log)
        disk.dies_before_call = len(disk.calls) + step
        with pytest.raises(DiskDied):
            log.swap_segments(log.segments.all[:2], bases)
            raise DiskDied("after the swap")
        is_last = disk.dies_before_call > len(disk.calls)
        for kept in _survivors(disk.unsynced_changes):
            again = copy.deepcopy(disk)
            again.lose_power(kept)
            state = _state(open_log(again, config=CONFIG, recovery_point=END))
            assert state in (OLD, expected), (step, kept)
            outcomes.add(state == expected)
            assert again.paths(".cleaned") == again.paths(".swap") == []
        if is_last:
            break
    assert outcomes == {False, True}


@pytest.mark.thorough
def test_a_crash_while_a_start_completes_a_swap_loses_nothing() -> None:
    reached = 0
    for first, second in product(range(8, 30), range(0, 14, 2)):
        disk = UnorderedDisk()
        log = _filled(disk)
        _merge(disk, log)
        disk.dies_before_call = len(disk.calls) + first
        try:
            log.swap_segments(log.segments.all[:2], [0])
        except DiskDied:
            disk.kill()
        else:
            break
        disk.dies_before_call = len(disk.calls) + second
        try:
            log = open_log(disk, config=CONFIG, recovery_point=END)
        except DiskDied:
            reached += 1
            disk.lose_power([number % 2 == 0 for number in range(disk.unsynced_changes)])
            log = open_log(disk, config=CONFIG, recovery_point=END)
        disk.dies_before_call = None
        assert _state(log) in (OLD, MERGED), (first, second)
    assert reached > 20


def test_a_swap_file_whose_aborts_were_not_renamed_yet_is_not_believed() -> None:
    """Kafka renames the log file first: a crash there would serve aborted records as committed."""
    disk = SimulatedDisk()
    log = _filled(disk)
    _merge(disk, log)
    disk.rename(f"{DIRECTORY}/{0:020d}.log.cleaned", f"{DIRECTORY}/{0:020d}.log.swap")
    disk.kill()
    assert _state(open_log(disk, config=CONFIG, recovery_point=END)) == OLD


def test_a_swap_of_a_later_run_does_not_void_one_before_it() -> None:
    disk = SimulatedDisk()
    log = _filled(disk)
    _merge(disk, log)
    for path in disk.paths(".cleaned"):
        disk.rename(path, path.removesuffix(".cleaned") + ".swap")
    disk.put(f"{DIRECTORY}/{10:020d}.log.cleaned", b"half of the next run")
    disk.kill()
    assert _state(open_log(disk, config=CONFIG, recovery_point=END)) == MERGED


def test_files_of_an_abandoned_round_do_not_void_a_later_swap() -> None:
    disk = UnorderedDisk()
    log = _filled(disk)
    disk.put(f"{DIRECTORY}/{0:020d}.log.cleaned", b"given up")
    _clean(disk, log, 4, (6, 9))
    calls = len(disk.calls)
    disk.dies_before_call = calls + 16
    with pytest.raises(DiskDied):
        log.swap_segments(log.segments.all[1:2], [4])
    assert any(path.endswith(".deleted") for path in disk.paths(".deleted"))
    disk.dies_before_call = None
    disk.kill()
    expected = ([0, 4, 10, 12], [0, 1, 2, 3, 6, 9, 10, 11, 12, 13], ABORTS)
    assert _state(open_log(disk, config=CONFIG, recovery_point=END)) == expected


def test_an_empty_swap_file_replaces_the_segment_of_its_name_alone() -> None:
    disk = SimulatedDisk()
    log = _filled(disk)
    for suffix in (".log", ".index", ".timeindex"):
        disk.put(f"{DIRECTORY}/{4:020d}{suffix}.swap", b"")
    log.flush()
    disk.kill()
    log = open_log(disk, config=CONFIG, recovery_point=END)
    assert _state(log)[:2] == ([0, 4, 10, 12], [0, 1, 2, 3, 10, 11, 12, 13])
    assert _state(log)[2] == ABORTS[:1], "the old segment's aborts go with its records"


def test_segments_that_cannot_replace_the_run_are_refused() -> None:
    disk = SimulatedDisk()
    log = _filled(disk)
    first, second, third, active = log.segments.all
    _merge(disk, log)
    refused: list[tuple[list[Segment], list[int]]] = [
        ([], [0]),
        ([first, third], [0]),
        ([second, first], [4]),
        ([third, active], [10]),
        ([first, second], []),
        ([first, second], [4]),
        ([first, second], [0, 10]),
        ([first, second], [0, 6, 6]),
        ([first], [0]),  # It ends at 9, the segment at 3.
    ]
    for replaced, bases in refused:
        with pytest.raises(ValueError, match="segments"):
            log.swap_segments(replaced, bases)
    assert _state(log) == OLD
    assert not [entry for entry in disk.entries(DIRECTORY) if entry.name.endswith((".swap", ".deleted"))]
    log.swap_segments([first, second], [0])
    with pytest.raises(ValueError, match="any more"):
        log.swap_segments([first, second], [0])
    assert _state(log) == MERGED


def test_the_next_start_completes_a_swap_whose_disk_failed() -> None:
    for step in range(3, 12):
        disk = SimulatedDisk()
        failed: list[str] = []
        log = _filled(disk)
        log._health._on_failure = lambda path, _, failed=failed: failed.append(path)
        _merge(disk, log)
        disk.fail_call(step, errno.EIO)
        with pytest.raises(KafkaStorageError):
            log.swap_segments(log.segments.all[:2], [0])
        assert failed == ["logs"]
        disk.kill()
        assert _state(open_log(disk, config=CONFIG, recovery_point=END)) in (OLD, MERGED)


def test_batches_without_records_may_end_a_run() -> None:
    """What a cleaner writes for a last batch whose records were all superseded."""
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    for _ in range(3):
        log.append(batch(b"x"), leader_epoch=0)
    log.roll()
    log.append(batch(b"y"), leader_epoch=0)
    empty = bytearray(build_batch([(START_MS, b"key", b"x")], base_offset=2, leader_epoch=0))
    log.flush()
    disk.sync_directory(DIRECTORY)
    disk.put(f"{DIRECTORY}/{0:020d}.log.cleaned", bytes(empty))
    log.swap_segments(log.segments.all[:1], [0])
    assert [one.base_offset for one in stored_batches(log)] == [2, 3]
