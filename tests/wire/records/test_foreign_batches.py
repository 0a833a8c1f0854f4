"""Batches of other implementations are read here, and ours are read there: kafka-python and aiokafka."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import records
from tests.wire.records.foreign import KafkaPythonBatch, KafkaPythonBuilder

RECORDS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (1_700_000_000_000, b"key", b"value", []),
    (1_700_000_000_005, None, b"no key", [("a", b"1"), ("a", b"2")]),
    (1_699_999_999_000, b"tombstone", None, [("empty", b""), ("\u017elu\u0165", b"\x00\xff")]),
    (1_700_000_100_000, b"", b"", []),
    (1_700_000_000_001, b"large", bytes(range(256)) * 300, [("null", None)]),
]
EXPECTED = [
    (index, timestamp_ms, key, value, tuple(headers))
    for index, (timestamp_ms, key, value, headers) in enumerate(RECORDS)
]


def _foreign(builder_class: Any, compression: Compression) -> bytearray:
    builder = builder_class(
        magic=2,
        compression_type=int(compression),
        is_transactional=True,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=17,
        batch_size=1 << 20,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        assert builder.append(offset, timestamp=timestamp_ms, key=key, value=value, headers=headers)
    return bytearray(builder.build())


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("builder_class", [AiokafkaBuilder, KafkaPythonBuilder])
def test_foreign_batch_is_read(builder_class: Any, compression: Compression) -> None:
    batch = _foreign(builder_class, compression)
    view = BatchView(memoryview(batch))
    view.verify()
    assert view.compression == compression
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (4000, 2, 17)
    assert (view.header.last_sequence, view.record_count, view.last_offset_delta) == (21, 5, 4)
    assert view.is_transactional
    assert view.max_timestamp_ms == max(record[0] for record in RECORDS)
    assert list(records(view)) == EXPECTED


def test_uncompressed_batches_have_the_same_bytes() -> None:
    ours = build_batch(
        RECORDS, is_transactional=True, producer_id=4000, producer_epoch=2, base_sequence=17, leader_epoch=0
    )
    for builder_class in (AiokafkaBuilder, KafkaPythonBuilder):
        theirs = _foreign(builder_class, Compression.NONE)
        theirs[12:16] = ours[12:16]  # the leader epoch is the broker's to say
        assert theirs == ours


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("batch_class", [AiokafkaBatch, KafkaPythonBatch])
def test_our_batch_is_read_there(batch_class: Any, compression: Compression) -> None:
    ours = build_batch(RECORDS, base_offset=100, compression=compression)
    theirs = batch_class(bytes(ours))
    assert theirs.validate_crc()
    got = [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in theirs
    ]
    assert got == [(100 + offset, *rest) for offset, *rest in EXPECTED]
