"""Bugs that other cleaners had, by the names under which they are known."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import CorruptRecord
from odradek.storage.compaction.candidates import cleanable
from odradek.storage.compaction.cleaning import RELATIVE_OFFSET_MAX, groups
from odradek.storage.compaction.task import SourceSegment
from odradek.storage.config import LogConfig
from odradek.storage.log import Log, Origin
from odradek.wire.records import compression
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.support.compaction import CONFIG, MakeMap, compact, plain
from tests.support.compaction_model import by_vectors
from tests.support.disk import SimulatedDisk
from tests.support.logs import (
    START_MS,
    StillClock,
    end_transaction,
    open_log,
    stored_batches,
    stored_records,
    visible_offsets,
)

MAPS: dict[str, MakeMap] = {"plain": plain, "vectors": by_vectors(64)}
maps = pytest.mark.parametrize("make_map", MAPS.values(), ids=MAPS.keys())


def put(log: Log, key: bytes, value: bytes | None, producer_id: int = -1, **fields: Any) -> int:
    if producer_id >= 0:
        fields |= {"producer_id": producer_id, "producer_epoch": 0}
    data = build_batch([(START_MS, key, value)], **fields)
    return log.append(data, leader_epoch=0, origin=Origin.COORDINATOR).first_offset


def end(log: Log, producer_id: int, *, is_commit: bool) -> int:
    return end_transaction(log, producer_id, is_commit=is_commit)


def copied_from(leader: Log, disk: SimulatedDisk, config: LogConfig = CONFIG) -> Log:
    """A new replica that has fetched everything."""
    follower = open_log(disk, config=config)
    for one in stored_batches(leader):
        follower.append_as_follower(
            memoryview(bytes(one.buffer[one.position : one.position + one.size_bytes]))
        )
    return follower


@maps
def test_the_newest_time_goes_with_its_record(make_map: MakeMap) -> None:
    """A look-up by time would open such a batch in vain."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    log.append(build_batch([(START_MS, b"kept", b""), (START_MS + 900, b"key", b"old")]), leader_epoch=0)
    log.append(build_batch([(START_MS + 100, b"key", b"new")]), leader_epoch=0)
    log.roll()
    compact(log, clock=clock, disk=disk, make_map=make_map)
    assert [one.header.max_timestamp_ms - START_MS for one in stored_batches(log)] == [0, 100]


@maps
@pytest.mark.parametrize("bit", [0, 1, 7, 40], ids="bit {}".format)
@pytest.mark.parametrize("which", [0, 1, 3, -1], ids="batch {}".format)
def test_a_flipped_bit_of_an_offset_ends_the_round(which: int, bit: int, make_map: MakeMap) -> None:
    """No CRC covers the base offset. An old record whose offset was raised would be the newest of its key."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    for number in range(6):
        put(log, b"key %d" % (number % 2), b"value %d" % number)
    batches = stored_batches(log)
    log.roll()
    path = f"{log.directory}/{0:020d}.log"
    disk.flip_bit(path, batches[which].position * 8 + 8 * (7 - bit // 8) + bit % 8)
    before = disk.read(path)
    try:
        compact(log, clock=clock, disk=disk, make_map=make_map)
    except CorruptRecord:
        assert disk.read(path) == before
        return
    raise AssertionError("the round took the offset for right")


@maps
def test_an_aborted_tail_keeps_the_end_of_the_log(make_map: MakeMap) -> None:
    """KAFKA-17076, KAFKA-20452: the round's last batch went, and the end offset of its copies with it."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    put(log, b"a", b"1")
    for sequence in range(20):
        put(log, b"a", b"aborted %d" % sequence, 7, base_sequence=sequence, is_transactional=True)
    end(log, 7, is_commit=False)
    log.roll()
    before = log.log_end_offset
    for _ in range(3):
        compact(log, clock=clock, disk=disk, make_map=make_map, removal_bound_offset=before)
        clock.advance(CONFIG.delete_retention_ms + 1)
        put(log, b"b", b"later")
        log.roll()
    ends = log.log_end_offset
    compact(log, clock=clock, disk=disk, make_map=make_map, removal_bound_offset=ends)
    assert log.log_end_offset == ends == before + 3
    assert stored_records(log)[0].value == b"1"
    # Also for each start, with and without the state of producers at hand, and for a new replica.
    assert copied_from(log, SimulatedDisk()).log_end_offset == ends
    log.close()
    for is_clean in (True, False):
        log = open_log(disk, config=CONFIG, clock=clock, clean=is_clean)
        assert log.log_end_offset == ends
        log.close()


@maps
def test_a_log_that_is_aborted_to_its_end_keeps_its_end(make_map: MakeMap) -> None:
    """KAFKA-17076: as above, with nothing behind the aborted part."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    for sequence in range(5):
        put(log, b"a", b"aborted", 7, base_sequence=sequence, is_transactional=True)
    end(log, 7, is_commit=False)
    log.roll()
    for _ in range(3):
        log.offsets.cleaned_offset = -1
        compact(log, clock=clock, disk=disk, make_map=make_map, removal_bound_offset=6)
        clock.advance(CONFIG.delete_retention_ms + 1)
    assert [record for record in stored_records(log) if record.value == b"aborted"] == []
    log.close()
    assert open_log(disk, config=CONFIG, clock=clock, clean=False).log_end_offset == 6
    assert (
        copied_from(open_log(disk, config=CONFIG, clock=clock, clean=True), SimulatedDisk()).log_end_offset
        == 6
    )


@maps
def test_segments_far_apart_are_not_merged(make_map: MakeMap) -> None:
    """KAFKA-6264, KAFKA-12889: offsets in an index are relative, and reach 2^31 - 1 beyond the base offset."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    bases = [0, RELATIVE_OFFSET_MAX - 1, RELATIVE_OFFSET_MAX + 5, 2 * RELATIVE_OFFSET_MAX + 20]
    for number, base in enumerate(bases):
        for offset in (base, base + 1):
            data = build_batch([(START_MS, b"key %d" % (offset % 2), b"%d" % number)])
            data[:8] = offset.to_bytes(8, "big")
            log.append_as_follower(memoryview(data))
        log.roll()
    compact(log, clock=clock, disk=disk, make_map=make_map)
    for segment in log.segments.all[:-1]:
        assert segment.next_offset() - 1 - segment.base_offset <= RELATIVE_OFFSET_MAX
    last = bases[-1]
    assert [record.offset for record in stored_records(log)] == [last, last + 1]
    # Every offset is found, also through the indexes that a start reads.
    log.close()
    log = open_log(disk, config=CONFIG, clock=clock, clean=False)
    assert log.log_end_offset == last + 2
    assert [record.offset for record in stored_records(log, from_offset=5)] == [last, last + 1]


def test_a_group_ends_before_the_last_relative_offset() -> None:
    """KAFKA-12889: the last offset of a run is bounded by the base of the segment behind it."""

    def segment(base: int, next_base: int, size: int = 100) -> SourceSegment:
        return SourceSegment(
            base_offset=base,
            size_bytes=size,
            index_bytes=8,
            time_index_bytes=12,
            modified_ms=0,
            next_base_offset=next_base,
        )

    edge = RELATIVE_OFFSET_MAX + 1
    for far, expected in ((edge, 1), (edge + 1, 2)):
        found = groups([segment(0, 10), segment(10, far)], segment_bytes=1000, index_bytes=1000)
        assert len(found) == expected, far
    # An empty one has no offset that counts.
    assert len(groups([segment(0, 10), segment(10, edge + 9, 0)], segment_bytes=1000, index_bytes=1000)) == 1


@maps
def test_output_larger_than_its_source_is_cut_into_segments(
    make_map: MakeMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-20036: batches compressed again at another level grew beyond one segment; the retry filtered twice."""
    disk, clock = SimulatedDisk(), StillClock()
    config = LogConfig(
        cleanup_compact=True, cleanup_delete=False, segment_bytes=6000, index_interval_bytes=100
    )
    log = open_log(disk, config=config, clock=clock)
    for number in range(40):
        rows = [(START_MS, b"%d-%d" % (number, key), b"x" * 200) for key in range(5)]
        rows.append((START_MS, b"same", b"%d" % number))
        data = build_batch(
            rows,
            compression=Compression.GZIP,
            producer_id=9,
            producer_epoch=0,
            base_sequence=6 * number,
            is_transactional=True,
        )
        log.append(data, leader_epoch=0, origin=Origin.COORDINATOR)
        if number % 4 == 3:
            end(log, 9, is_commit=number % 8 == 3)
    log.roll()
    before = visible_offsets(log)
    compress = compression.compress
    # As if no level compressed at all.
    monkeypatch.setattr(
        "odradek.storage.compaction.cleaning.compress", lambda data, codec: compress(data, codec, level=0)
    )
    grown = log.size_bytes
    compact(log, clock=clock, disk=disk, make_map=make_map)
    assert log.size_bytes > grown
    assert len(log.segments.all) > 3
    assert all(segment.size_bytes <= config.segment_bytes for segment in log.segments.all)
    left = {record.offset for record in stored_records(log)}
    assert max(before) in left
    assert visible_offsets(log) == [offset for offset in before if offset in left]
    log.close()
    log = open_log(disk, config=config, clock=clock, clean=False)
    assert visible_offsets(log) == [offset for offset in before if offset in left]


@maps
def test_offsets_missing_at_the_end_of_a_segment_end_no_round(make_map: MakeMap) -> None:
    """KAFKA-8764, KAFKA-9065: a hole up to the next base offset was read for ever. The next round begins behind it."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    for offset, key in ((0, b"a"), (1, b"a"), (100, b"b"), (101, b"b"), (500, b"c")):
        data = build_batch([(START_MS, key, b"%d" % offset)])
        data[:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(data))
        if offset in (1, 101):
            # The segment begins where the records that are gone would have been.
            log.roll(offset + 50)
    log.roll()
    summary = compact(log, clock=clock, disk=disk, make_map=make_map)
    assert summary.next_dirty_offset == log.log_end_offset == 501
    assert [record.offset for record in stored_records(log)] == [1, 101, 500]
    again = cleanable(log, last_stable_offset=501, now_ms=clock.wall_ms())
    assert (again.dirty_bytes, again.first_dirty_offset) == (0, 501)
    # What a reader finds from inside of each hole.
    for inside, found in ((60, 101), (130, 500), (300, 500)):
        assert stored_records(log, from_offset=inside)[0].offset == found


@maps
@pytest.mark.parametrize("is_first_compacted", [False, True])
def test_a_new_replica_of_a_compacted_log_shows_the_same(make_map: MakeMap, is_first_compacted: bool) -> None:
    """redpanda#15672, redpanda#7081: the range of an abort grew or was lost, and data behind it vanished."""
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, config=CONFIG, clock=clock)
    put(log, b"a", b"before")
    for sequence in range(4):
        put(log, b"b", b"aborted", 7, base_sequence=sequence, is_transactional=True)
    log.roll()
    put(log, b"c", b"between")
    put(log, b"d", b"committed", 8, base_sequence=0, is_transactional=True)
    end(log, 7, is_commit=False)
    log.roll()
    put(log, b"e", b"next", 7, base_sequence=4, is_transactional=True)
    end(log, 7, is_commit=True)
    end(log, 8, is_commit=True)
    put(log, b"f", b"after")
    put(log, b"c", b"newer")
    log.roll()
    if is_first_compacted:
        compact(log, clock=clock, disk=disk, make_map=make_map)
    replica_disk = SimulatedDisk()
    replica = copied_from(log, replica_disk)
    expected = [b"before", b"committed", b"next", b"after", b"newer"]
    for number in range(3):
        for one, its_disk in ((log, disk), (replica, replica_disk)):
            assert values(one)[-2:] == expected[-2:]
            if number or is_first_compacted:
                assert values(one) == expected
            one.roll()
            one.offsets.cleaned_offset = -1
            compact(
                one, clock=clock, disk=its_disk, make_map=make_map, removal_bound_offset=one.log_end_offset
            )
            clock.advance(CONFIG.delete_retention_ms + 1)
        assert values(log) == values(replica) == expected
    # The producer whose transaction was aborted continues, on either.
    for one in (log, replica):
        put(one, b"g", b"more", 7, base_sequence=5, is_transactional=True)
        end(one, 7, is_commit=True)
        assert values(one) == [*expected, b"more"]


def values(log: Log) -> list[bytes | None]:
    """What a reader of committed records gets."""
    by_offset = {record.offset: record.value for record in stored_records(log)}
    return [by_offset[offset] for offset in visible_offsets(log)]
