"""Kafka's own Java classes read what is written here and the other way round, old formats included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.storage.producer_snapshots import SnapshotEntry, decode_snapshot, encode_snapshot
from odradek.wire.records.batch import BatchView, TimestampType, split
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from odradek.wire.records.control import build_marker, parse_marker
from odradek.wire.records.legacy import messages, upconvert
from odradek.wire.records.record import Record, records
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.java_gateway import java_gateway
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.java, pytest.mark.thorough]

CONTENTS: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (1_700_000_000_000, b"key", b"value", ()),
    (1_700_000_000_005, None, b"no key", (("a", b"1"), ("a", b"2"))),
    (
        1_699_999_999_000,
        b"tombstone",
        None,
        (("e", b""), ("\u017e", b"\x00\xff"), ("null", None)),
    ),
    (1_700_000_100_000, b"", b"", ()),
    # Enough for several blocks of snappy and lz4.
    *((1_700_000_200_000 + index, b"k%d" % index, b"%d" % index * 30_000, ()) for index in range(5)),
]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Kafka's jars."""
    try:
        with java_gateway(kafka_classpath()) as view:
            yield view
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


def _each(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _java_records(jvm: Any, data: bytes) -> Any:
    return jvm.org.apache.kafka.common.record.MemoryRecords.readableRecords(
        jvm.java.nio.ByteBuffer.wrap(data)
    )


def _java_bytes(jvm: Any, java_records: Any) -> bytes:
    return bytes(jvm.org.apache.kafka.common.utils.Utils.toArray(java_records.buffer().duplicate()))


def _read_by_java(jvm: Any, data: bytes) -> list[Record]:
    to_array = jvm.org.apache.kafka.common.utils.Utils.toNullableArray
    found = []
    for batch in _each(_java_records(jvm, data).batches()):
        batch.ensureValid()
        for record in _each(batch):
            record.ensureValid()
            headers = tuple(
                (header.key(), None if header.value() is None else bytes(header.value()))
                for header in record.headers()
            )
            key, value = to_array(record.key()), to_array(record.value())
            found.append(
                Record(
                    record.offset(),
                    record.timestamp(),
                    None if key is None else bytes(key),
                    None if value is None else bytes(value),
                    headers,
                )
            )
    return found


def _written_by_java(
    jvm: Any, *, magic: int, codec: Compression, time_type: TimestampType, base_offset: int, limit: int = 1000
) -> bytes:
    package = jvm.org.apache.kafka.common
    kind = package.record.CompressionType.forId(int(codec))
    builder = package.record.MemoryRecords.builder(
        jvm.java.nio.ByteBuffer.allocate(1 << 20),
        magic,
        package.compress.Compression.of(kind).build(),
        package.record.TimestampType.forName(
            "CreateTime" if time_type == TimestampType.CREATE_TIME else "LogAppendTime"
        ),
        base_offset,
        4711,
    )
    for timestamp_ms, key, value, _ in CONTENTS[:limit]:
        builder.append(timestamp_ms, key, value)
    return _java_bytes(jvm, builder.build())


@pytest.mark.parametrize("codec", Compression)
def test_java_reads_our_batches(jvm: Any, codec: Compression) -> None:
    batch = build_batch(CONTENTS, base_offset=1000, compression=codec, leader_epoch=3)
    found = _read_by_java(jvm, bytes(batch))
    assert found == [Record(1000 + index, *content) for index, content in enumerate(CONTENTS)]


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("time_type", TimestampType)
def test_javas_batches_are_read(jvm: Any, codec: Compression, time_type: TimestampType) -> None:
    data = _written_by_java(jvm, magic=2, codec=codec, time_type=time_type, base_offset=50)
    (view,) = split(memoryview(data))
    view.verify()
    assert (view.compression, view.header.timestamp_type, view.base_offset) == (codec, time_type, 50)
    found = list(records(view))
    assert [record[2:4] for record in found] == [content[1:3] for content in CONTENTS]
    times = [content[0] if time_type == TimestampType.CREATE_TIME else 4711 for content in CONTENTS]
    assert [record.timestamp_ms for record in found] == times
    assert [record.offset for record in found] == list(range(50, 50 + len(CONTENTS)))


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.ZSTD])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("time_type", TimestampType)
def test_javas_old_message_sets_are_read_and_upconverted(
    jvm: Any, magic: int, codec: Compression, time_type: TimestampType
) -> None:
    if magic == 0 and time_type == TimestampType.LOG_APPEND_TIME:
        time_type = TimestampType.CREATE_TIME
    data = _written_by_java(jvm, magic=magic, codec=codec, time_type=time_type, base_offset=50)
    found = list(messages(data))
    assert [record[:4] for record in found] == [record[:4] for record in _read_by_java(jvm, data)]
    assert [record.value for record in found] == [content[2] for content in CONTENTS]
    batch = upconvert(data)
    assert list(records(BatchView(batch))) == found
    assert _read_by_java(jvm, bytes(batch)) == found


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_have_the_same_bytes(jvm: Any, is_commit: bool) -> None:
    package = jvm.org.apache.kafka.common.record
    kind = package.ControlRecordType.COMMIT if is_commit else package.ControlRecordType.ABORT
    theirs = _java_bytes(
        jvm,
        package.MemoryRecords.withEndTransactionMarker(
            8, 5000, 2, 77, 3, jvm.org.apache.kafka.common.record.EndTransactionMarker(kind, 12)
        ),
    )
    ours = build_marker(
        producer_id=77,
        producer_epoch=3,
        is_commit=is_commit,
        coordinator_epoch=12,
        timestamp_ms=5000,
        base_offset=8,
        leader_epoch=2,
    )
    assert bytes(ours) == theirs
    assert parse_marker(BatchView(theirs)) == parse_marker(BatchView(ours))


def test_producer_snapshots_are_javas(jvm: Any, tmp_path: Path) -> None:
    entries = [
        SnapshotEntry(4000, 2, 17, 99, 3, 1_700_000_000_000, -1, -1),
        SnapshotEntry(4001, 0, -1, -1, 0, 1_700_000_000_001, 5, 42),
    ]
    path = tmp_path / "00000000000000000100.snapshot"
    path.write_bytes(encode_snapshot(entries))
    manager = jvm.org.apache.kafka.storage.internals.log.ProducerStateManager
    found = [
        (
            entry.producerId(),
            entry.producerEpoch(),
            entry.lastSeq(),
            entry.lastDataOffset(),
            entry.lastOffsetDelta(),
            entry.lastTimestamp(),
            entry.coordinatorEpoch(),
            entry.currentTxnFirstOffset().orElse(-1),
        )
        for entry in _each(manager.readSnapshot(jvm.java.io.File(str(path))))
    ]
    assert found == [tuple(entry) for entry in entries]
    assert decode_snapshot(path.read_bytes(), name="x") == entries
