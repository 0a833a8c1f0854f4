"""What a consumer hands out of what it fetched: whole batches, from its offset on, nothing aborted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.positions import PartitionPosition
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import read_header, update_crc, write_header
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker

KEY = TopicPartition("t", 0)


def batch(first: int, count: int, **fields: object) -> bytes:
    records = [(1000 + first + n, b"k", b"%d" % (first + n)) for n in range(count)]
    return bytes(build_batch(records, base_offset=first, **fields))


def take_all(position: PartitionPosition, count_max: int = 10_000) -> list[ConsumerRecord]:
    return [record for block in position.take_blocks(count_max) for record in block.consumer_records()]


def test_a_fetch_from_within_a_batch_begins_at_its_offset() -> None:
    position = PartitionPosition(KEY, 3)
    position.add(memoryview(batch(0, 5) + batch(5, 2)), ())
    assert [record.offset for record in take_all(position)] == [3, 4, 5, 6]
    assert position.position == position.fetch_offset == 7


def test_a_cut_off_last_batch_is_left_for_the_next_fetch() -> None:
    position = PartitionPosition(KEY, 0)
    position.add(memoryview(batch(0, 2) + batch(2, 5)[:-1]), ())
    assert [record.offset for record in take_all(position)] == [0, 1]
    assert position.fetch_offset == 2


def test_bytes_without_a_whole_batch_are_an_error() -> None:
    with pytest.raises(CorruptRecord, match="without one whole batch"):
        PartitionPosition(KEY, 0).add(memoryview(batch(0, 2)[:-1]), ())


def test_damage_is_not_handed_out() -> None:
    data = bytearray(batch(0, 2))
    data[-1] ^= 1
    position = PartitionPosition(KEY, 0)
    position.add(memoryview(bytes(data)), ())
    with pytest.raises(CorruptRecord):
        take_all(position)


def test_aborted_records_and_markers_are_left_out_but_stepped_over() -> None:
    def of(producer: int) -> dict[str, object]:
        return {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}

    def marker(offset: int, producer: int, is_commit: bool) -> bytes:
        return bytes(
            build_marker(
                producer_id=producer,
                producer_epoch=0,
                is_commit=is_commit,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
        )

    data = (
        batch(0, 2, **of(1))
        + batch(2, 1, **of(2))
        + marker(3, 1, is_commit=False)
        + batch(4, 1, **of(1))
        + marker(5, 2, is_commit=True)
        + marker(6, 1, is_commit=True)
    )
    position = PartitionPosition(KEY, 0)
    position.add(memoryview(data), ((0, 1),))
    assert [record.offset for record in take_all(position)] == [2, 4]
    assert position.position == 7


def test_the_last_record_of_a_compacted_batch_leads_to_the_batchs_end() -> None:
    data = bytearray(batch(0, 5))
    write_header(data, 0, read_header(data)._replace(last_offset_delta=9))
    update_crc(data)
    position = PartitionPosition(KEY, 0)
    position.add(memoryview(data), ())
    positions = []
    while (record := position.take_one()) is not None:
        positions.append((record.offset, position.position))
    assert positions == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 10)]


def test_a_seek_forgets_what_was_fetched() -> None:
    position = PartitionPosition(KEY, 0)
    position.add(memoryview(batch(0, 5)), ())
    assert len(take_all(position, 2)) == 2
    generation = position.generation
    position.seek(10)
    assert not position.has_data
    assert position.generation > generation


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 10), st.integers(1, 7))
def test_records_come_once_and_in_order_however_they_are_taken(
    sizes: list[int], start: int, step: int
) -> None:
    total = sum(sizes)
    start = min(start, total - 1)
    position = PartitionPosition(KEY, start)
    first = 0
    for size in sizes:
        if first + size > start:
            position.add(memoryview(batch(first, size)), ())
        first += size
    seen: list[int] = []
    while position.has_data:
        taken = take_all(position, step)
        assert len(taken) <= step
        seen += [record.offset for record in taken]
    assert seen == list(range(start, total))
    assert position.position == total


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.lists(st.sampled_from(["one", "two", "all", "seek"]), max_size=20),
)
def test_single_records_and_lists_can_be_mixed(sizes: list[int], steps: list[str]) -> None:
    position = PartitionPosition(KEY, 0)
    total = 0
    for size in sizes:
        position.add(memoryview(batch(total, size)), ())
        total += size
    expected = 0
    for step in [*steps, "all"]:
        if step == "seek":
            position.seek(0)
            expected, first = 0, 0
            for size in sizes:
                position.add(memoryview(batch(first, size)), ())
                first += size
            continue
        if step == "one":
            record = position.take_one()
            taken = [] if record is None else [record]
        else:
            taken = take_all(position, 2 if step == "two" else 10_000)
        count = min({"one": 1, "two": 2, "all": total}[step], total - expected)
        assert [record.offset for record in taken] == list(range(expected, expected + count))
        expected += count
        assert position.position == expected
    assert position.take_one() is None
    assert not position.has_data
