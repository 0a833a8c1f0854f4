"""Building batches: record by record, under another codec, and with records taken out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire.records.batch import HEADER_BYTES, BatchView, TimestampType, verify_header
from odradek.wire.records.builder import BatchBuilder, build_batch, recompress
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import records
from tests.wire.records.strategies import RECORDS, expected


def test_fields_are_written() -> None:
    batch = build_batch(
        [(10, b"k", b"v"), (7, None, None)],
        base_offset=5,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        is_control=True,
        is_transactional=True,
        compression=Compression.ZSTD,
        last_offset_delta=8,
    )
    header = verify_header(batch)
    assert isinstance(batch, bytearray)
    assert (header.base_offset, header.leader_epoch, header.last_offset, header.record_count) == (5, 3, 13, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 2**31 - 1)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (10, 10)
    assert header.is_control
    assert header.is_transactional
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.compression == Compression.ZSTD


def test_without_fields_there_is_no_producer_and_no_epoch() -> None:
    header = verify_header(build_batch([(1, None, b"v")]))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.leader_epoch, header.attributes, header.last_sequence) == (-1, 0, -1)


@pytest.mark.thorough
@given(built=RECORDS)
def test_payload_bytes_is_what_the_batch_will_take(built: list[tuple[Any, ...]]) -> None:
    builder = BatchBuilder()
    for index, record in enumerate(built):
        assert builder.append(*record) == index
    assert len(builder) == len(built)
    size = builder.payload_bytes
    assert len(builder.build()) == HEADER_BYTES + size


def test_offset_deltas_may_leave_gaps_and_must_rise() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"a", offset_delta=3)
    builder.append(1, None, b"b")
    builder.append(1, None, b"c", offset_delta=9)
    with pytest.raises(ValueError, match="does not rise"):
        builder.append(1, None, b"d", offset_delta=9)
    batch = BatchView(builder.build(base_offset=100))
    assert [record.offset for record in records(batch)] == [103, 104, 109]
    assert batch.last_offset == 109


def test_an_empty_batch_is_whole() -> None:
    batch = BatchView(build_batch([], last_offset_delta=4))
    batch.verify()
    assert (batch.record_count, batch.last_offset_delta) == (0, 4)
    assert list(records(batch)) == []


@given(built=RECORDS, before=st.sampled_from(Compression), after=st.sampled_from(Compression))
def test_recompress_changes_the_codec_and_nothing_else(
    built: list[tuple[Any, ...]], before: Compression, after: Compression
) -> None:
    batch = build_batch(
        built, base_offset=50, compression=before, producer_id=4, producer_epoch=0, base_sequence=6
    )
    changed = BatchView(recompress(BatchView(batch), after))
    changed.verify()
    assert changed.compression == after
    assert list(records(changed)) == expected(built, base_offset=50)
    unchanged = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert changed.header._replace(**unchanged) == BatchView(batch).header._replace(**unchanged)
