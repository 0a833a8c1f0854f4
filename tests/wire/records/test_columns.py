"""Columns of many batches hold what `records` reads from each, and refuse what it refuses."""

from __future__ import annotations

from random import Random

import pytest

from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.columns import BlockColumns
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.columns import RecordColumns
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import read_headers, records

PARTITION = TopicPartition("t", 0)


def made(random: Random, base_offset: int, *, compression: Compression = Compression.NONE) -> BatchView:
    """A batch of records of many shapes."""
    rows = []
    for _ in range(random.choice([1, 2, 40, 300])):
        key = random.choice([None, b"", random.randbytes(random.choice([1, 70, 9000]))])
        value = random.choice([None, b"", random.randbytes(random.choice([5, 200, 20_000]))])
        headers = random.choice([(), (("a", b"1"), ("b", None))])
        rows.append((1_700_000_000_000 + random.randrange(100_000), key, value, headers))
    return BatchView(memoryview(build_batch(rows, base_offset=base_offset, compression=compression)), 0)


def block_of(batch: BatchView, first: int | None = None, end: int | None = None) -> RecordBlock:
    header = batch.header
    first = header.base_offset if first is None else first
    return RecordBlock(PARTITION, batch, header, first, header.last_offset + 1 if end is None else end)


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_columns_hold_every_field(count: int, compression: Compression) -> None:
    random = Random(count)
    batches, offset = [], 5
    for _ in range(count):
        batches.append(made(random, offset, compression=compression))
        offset = batches[-1].last_offset + 1 + random.choice([0, 3])
    columns = BlockColumns([block_of(batch) for batch in batches])
    expected = [record for batch in batches for record in records(batch)]
    found = []
    for number in columns.chosen.tolist():
        parts = []
        for start, size in (
            (columns.key_start, columns.key_size),
            (columns.value_start, columns.value_size),
        ):
            at, length = int(start[number]), int(size[number])
            parts.append(None if length < 0 else columns.data[at : at + length])
        headers = read_headers(columns.data, int(columns.headers_start[number]), int(columns.end[number]))
        found.append((int(columns.offset[number]), int(columns.timestamp_ms[number]), *parts, headers))
    assert found == [tuple(record) for record in expected]


def test_a_block_takes_only_its_own_records() -> None:
    batch = made(Random(7), 100)
    while batch.record_count < 10:
        batch = made(Random(batch.record_count + 7), 100)
    columns = BlockColumns([block_of(batch, 103, 106)])
    assert columns.offset[columns.chosen].tolist() == [103, 104, 105]


@pytest.mark.thorough
def test_damaged_records_are_refused_and_never_something_else() -> None:
    random = Random(3)
    for _ in range(300):
        batch = made(random, 0)
        payload = bytearray(batch.payload)
        for _ in range(random.choice([1, 3])):
            payload[random.randrange(len(payload))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            columns = RecordColumns([bytes(payload)], [batch.header])
        except CorruptRecord:
            continue
        assert len(columns) == batch.record_count
        assert (columns.headers_start < columns.end).all()
        assert (columns.key_start + columns.key_size <= columns.end).all()
