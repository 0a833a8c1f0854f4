"""Codecs: other libraries read what is written here and the other way round; bombs and damage are refused."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord, UnsupportedCompressionType
from odradek.wire.records.compression import Compression, compress, decompress
from tests.support.examples import examples

CODECS = [codec for codec in Compression if codec != Compression.NONE]
TEXT = b"".join(b"line %d of a text that repeats itself\n" % (number % 97) for number in range(20_000))


def _xerial_blocks(framed: bytes) -> bytes:
    """Java's snappy framing, taken apart by hand."""
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, plain = 16, b""
    while position < len(framed):
        (size,) = struct.unpack_from(">i", framed, position)
        plain += snappy.decompress(framed[position + 4 : position + 4 + size])
        position += 4 + size
    return plain


FOREIGN_READERS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.GZIP: gzip.decompress,
    Compression.SNAPPY: _xerial_blocks,
    Compression.LZ4: lz4.frame.decompress,
    Compression.ZSTD: lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@settings(max_examples=examples(50))
@given(data=st.binary(max_size=5000), codec=st.sampled_from(Compression))
def test_data_is_read_back(data: bytes, codec: Compression) -> None:
    assert bytes(decompress(memoryview(compress(memoryview(data), codec)), codec)) == data


@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "large"])
@pytest.mark.parametrize("codec", CODECS)
def test_other_libraries_read_it(codec: Compression, data: bytes) -> None:
    assert FOREIGN_READERS[codec](compress(data, codec)) == data
    assert FOREIGN_READERS[codec](compress(data, codec, level=1)) == data


@pytest.mark.parametrize(
    ("codec", "written"),
    [
        (Compression.GZIP, gzip.compress(TEXT)),
        (Compression.GZIP, gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
        (Compression.SNAPPY, snappy.compress(TEXT)),
        (Compression.LZ4, lz4.frame.compress(TEXT)),
        (Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True, content_checksum=True)),
        (Compression.LZ4, lz4.frame.compress(TEXT, store_size=False, block_checksum=True)),
        (Compression.ZSTD, zstandard.ZstdCompressor().compress(TEXT)),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)),
    ],
)
def test_what_other_libraries_write_is_read(codec: Compression, written: bytes) -> None:
    assert bytes(decompress(written, codec)) == TEXT


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    info = lz4.frame.get_frame_info(compress(TEXT, Compression.LZ4))
    assert info["block_linked"] is False


@pytest.mark.parametrize("codec", CODECS)
def test_size_max_is_exact(codec: Compression) -> None:
    compressed = compress(TEXT, codec)
    assert len(bytes(decompress(compressed, codec, size_max=len(TEXT)))) == len(TEXT)
    with pytest.raises(CorruptRecord, match="grows beyond"):
        decompress(compressed, codec, size_max=len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_memory_than_the_bound(codec: Compression) -> None:
    bomb = compress(bytes(64 << 20), codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="grows beyond"):
            decompress(bomb, codec, size_max=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_a_snappy_block_cannot_reserve_room_by_its_claim_alone() -> None:
    claim = b"\xff\xff\xff\x07" + b"\x00"  # a varint of 16 MiB, then an empty literal
    with pytest.raises(CorruptRecord):
        decompress(claim, Compression.SNAPPY)


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused_or_shorter(codec: Compression) -> None:
    compressed = compress(TEXT[:3000], codec)
    for size in range(len(compressed)):
        # Snappy's framing has no end mark, so it does not show truncation at the end of a block or header. The batch's
        # CRC and record count catch that.
        if codec == Compression.SNAPPY and size == 16:
            assert bytes(decompress(compressed[:size], codec)) == b""
            continue
        with pytest.raises(CorruptRecord):
            decompress(compressed[:size], codec)


@settings(max_examples=examples(200))
@given(codec=st.sampled_from(CODECS), data=st.data())
def test_damage_is_refused_or_decompresses_to_something(codec: Compression, data: st.DataObject) -> None:
    damaged = bytearray(compress(TEXT[:2000], codec))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        size = len(decompress(damaged, codec, size_max=1 << 20))
    except CorruptRecord:
        return
    assert size <= 1 << 20


@settings(max_examples=examples(200))
@given(codec=st.sampled_from(CODECS), garbage=st.binary(max_size=64))
def test_garbage_is_refused_or_decompresses_to_something(codec: Compression, garbage: bytes) -> None:
    try:
        size = len(decompress(garbage, codec, size_max=1 << 20))
    except CorruptRecord:
        return
    assert size <= 1 << 20


def test_a_codec_that_is_none_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionType):
        decompress(b"x", 5)
    with pytest.raises(UnsupportedCompressionType):
        compress(b"x", 7)  # type: ignore[arg-type]


class _Counted:
    """A decompressor that counts the bytes that are given to it: zlib copies what it leaves."""

    given = 0

    def __init__(self, window_bits: int) -> None:
        self._inner = _DECOMPRESSOR(window_bits)

    def decompress(self, data: memoryview, length_max: int) -> bytes:
        _Counted.given += len(data)
        return self._inner.decompress(data, length_max)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


_DECOMPRESSOR = zlib.decompressobj


@pytest.mark.parametrize("members", [500, 5000])
def test_many_members_of_gzip_cost_what_each_of_them_costs(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zlib, "decompressobj", _Counted)
    _Counted.given = 0
    member = gzip.compress(b"x")
    assert bytes(decompress(member * members, Compression.GZIP)) == b"x" * members
    assert _Counted.given <= len(member) * members + 256 * members


def test_members_of_gzip_count_even_when_they_are_empty() -> None:
    empty = gzip.compress(b"")
    assert bytes(decompress(empty * 100, Compression.GZIP, size_max=64 * 1024)) == b""
    with pytest.raises(CorruptRecord, match="grows beyond 65536 bytes"):
        decompress(empty * 300, Compression.GZIP, size_max=64 * 1024)


@pytest.mark.parametrize("cut", [1, 9, 300])
def test_a_later_member_of_gzip_may_be_long_and_may_not_be_cut_off(cut: int) -> None:
    both = gzip.compress(b"first") + gzip.compress(TEXT)
    assert bytes(decompress(both, Compression.GZIP)) == b"first" + TEXT
    with pytest.raises(CorruptRecord, match="cut off"):
        decompress(both[:-cut], Compression.GZIP)
