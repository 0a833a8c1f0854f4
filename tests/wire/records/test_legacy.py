"""Message sets of magic 0 and 1, written by kafka-python and by hand, read and up-converted."""

from __future__ import annotations

import gzip
import struct
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import BatchView, TimestampType
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from odradek.wire.records.legacy import magic_at, messages, upconvert
from odradek.wire.records.record import Record, records
from tests.wire.records.foreign import KafkaPythonLegacyBuilder

CONTENTS = [(b"k", b"value"), (None, b"no key"), (b"tombstone", None), (b"", b""), (b"long", b"x" * 3000)]

# Not lz4 in magic 0, whose wrong checksum has a test of its own below.
WRITTEN = [
    *((0, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY)),
    *((1, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)),
]


def _written(magic: int, compression: Compression) -> bytes:
    builder = KafkaPythonLegacyBuilder(magic=magic, compression_type=int(compression), batch_size=1 << 20)
    for offset, (key, value) in enumerate(CONTENTS):
        assert builder.append(offset, timestamp=1000 + offset if magic else None, key=key, value=value)
    data = bytearray(builder.build())
    if compression != Compression.NONE:
        struct.pack_into(
            ">q", data, 0, len(CONTENTS) - 1
        )  # a broker gives a wrapper its last message's offset
    return bytes(data)


def _expected(magic: int) -> list[Record]:
    return [
        Record(offset, 1000 + offset if magic else -1, key, value)
        for offset, (key, value) in enumerate(CONTENTS)
    ]


def _message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = 5,
    key: bytes | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize(("magic", "compression"), WRITTEN)
def test_what_kafka_python_writes_is_read(magic: int, compression: Compression) -> None:
    data = _written(magic, compression)
    assert magic_at(data) == magic
    assert list(messages(memoryview(data))) == _expected(magic)


@pytest.mark.parametrize(("magic", "compression"), WRITTEN)
def test_upconverted_batch_holds_the_same(magic: int, compression: Compression) -> None:
    batch = BatchView(upconvert(_written(magic, compression), leader_epoch=4))
    batch.verify()
    assert list(records(batch)) == _expected(magic)
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (0, 4, 4)
    assert batch.compression == Compression.NONE
    assert batch.header.timestamp_type == TimestampType.CREATE_TIME
    assert batch.max_timestamp_ms == (1004 if magic else -1)


def test_offsets_and_gaps_of_a_compacted_set_are_kept() -> None:
    data = _message(100, b"a") + _message(107, b"b") + _message(300, b"c")
    batch = BatchView(upconvert(data))
    assert [(record.offset, record.value) for record in records(batch)] == [
        (100, b"a"),
        (107, b"b"),
        (300, b"c"),
    ]
    assert batch.last_offset == 300


def test_offsets_inside_a_wrapper_count_from_its_own() -> None:
    inner = _message(0, b"a") + _message(3, b"b") + _message(4, b"c")
    wrapper = _message(504, gzip.compress(inner), attributes=Compression.GZIP, timestamp_ms=9)
    assert [(record.offset, record.timestamp_ms) for record in messages(wrapper)] == [
        (500, 5),
        (503, 5),
        (504, 5),
    ]


def test_log_append_time_of_a_wrapper_is_everyones() -> None:
    wrapper = _message(
        1,
        gzip.compress(_message(0, b"a") + _message(1, b"b")),
        attributes=Compression.GZIP | 8,
        timestamp_ms=777,
    )
    assert [record.timestamp_ms for record in messages(wrapper)] == [777, 777]
    batch = BatchView(upconvert(wrapper))
    assert batch.header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in records(batch)] == [777, 777]


@pytest.mark.parametrize("store_size", [True, False])
def test_the_wrong_lz4_header_checksum_of_magic_0_is_mended(store_size: bool) -> None:
    inner = b"".join(_message(offset, b"v%d" % offset, magic=0) for offset in range(5))
    frame = bytearray(lz4.frame.compress(inner, store_size=store_size))
    frame[14 if store_size else 6] ^= 0x5A
    wrapper = _message(4, bytes(frame), magic=0, attributes=Compression.LZ4)
    assert [record.value for record in messages(wrapper)] == [b"v0", b"v1", b"v2", b"v3", b"v4"]
    with pytest.raises(CorruptRecord):
        list(messages(_message(4, bytes(frame), magic=1, attributes=Compression.LZ4)))


def test_every_flipped_bit_behind_the_offset_is_found() -> None:
    data = _message(1, b"value", key=b"key")
    for bit in range(64, len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord):
            list(messages(damaged))


def test_every_truncation_is_found() -> None:
    data = _message(1, b"value", key=b"key")
    for size in range(1, len(data)):
        with pytest.raises(CorruptRecord):
            list(messages(data[:size]))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(_message(5, b"a") + _message(5, b"b"), id="an offset twice"),
        pytest.param(_message(5, b"a") + _message(4, b"b"), id="offsets fall"),
        pytest.param(_message(0, b"a") + _message(2**31, b"b"), id="too far apart"),
        pytest.param(
            _message(0, b"a", timestamp_ms=-(2**63)) + _message(1, b"b", timestamp_ms=2**62), id="times"
        ),
        pytest.param(_message(0, None, attributes=Compression.GZIP), id="wrapper without value"),
        pytest.param(_message(0, b"junk", attributes=Compression.GZIP), id="wrapper of junk"),
        pytest.param(_message(0, b"junk", attributes=Compression.ZSTD), id="zstd"),
        pytest.param(_message(0, b"junk", attributes=7), id="unknown codec"),
        pytest.param(bytes(build_batch([(0, b"k", b"v")])), id="a batch of magic 2"),
    ],
)
def test_what_cannot_become_a_batch_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        upconvert(data)


def test_a_bomb_is_refused() -> None:
    wrapper = _message(0, gzip.compress(_message(0, bytes(1 << 20))), attributes=Compression.GZIP)
    with pytest.raises(CorruptRecord, match="grows beyond"):
        list(messages(wrapper, size_max=1 << 16))


@given(
    magic=st.sampled_from([0, 1]),
    attributes=st.integers(-128, 127),
    value=st.none() | st.binary(max_size=60),
    after=st.binary(max_size=30),
)
def test_hostile_sets_are_read_or_refused(
    magic: int, attributes: int, value: bytes | None, after: bytes
) -> None:
    try:
        list(messages(_message(3, value, magic=magic, attributes=attributes) + after))
    except CorruptRecord:
        return


def test_magic_needs_seventeen_bytes() -> None:
    with pytest.raises(CorruptRecord):
        magic_at(bytes(16))
    assert magic_at(bytes(16) + b"\xff") == -1
