"""The four codecs of record batches, each in the framing that Kafka's clients read and write.

- gzip: one or more members.
- snappy: the framing of Java's snappy library, which Java and librdkafka both read. It has eight magic bytes, two
  version numbers, then blocks with a four-byte length before each. Raw snappy, which some clients send, is read as
  well.
- lz4: frames with independent blocks, since the Java client reads no others.
- zstd: plain frames.

Decompression is bounded: nothing beyond `size_max` bytes is ever produced, so a small hostile batch cannot
fill the memory. The libraries load on first use; a broker that only passes batches through never loads them.
"""

from __future__ import annotations

import enum
import struct
import zlib
from mmap import mmap
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import CorruptRecord, UnsupportedCompressionType
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.foundation.turn_limits import DECOMPRESSED_BYTES_OF_MALLOC_MAX

if TYPE_CHECKING:
    from types import ModuleType

Buffer = bytes | bytearray | memoryview


class DecompressedTooLarge(CorruptRecord):
    """The data grows beyond the size that was allowed."""


class Compression(enum.IntEnum):
    """The codec of a batch, with its number in the attributes' lowest three bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_GZIP_WINDOW_BITS: Final = 31  # 15 bits of window, plus 16 for the gzip header
# Bytes of a member that are decompressed first, and what each member after the first counts of the decompressed bytes.
_GZIP_MEMBER_BYTES: Final = 256
_ZSTD_LEVEL: Final = 3
_GZIP_LEVEL: Final = 6

# The framing of Java's snappy: magic, version, lowest compatible version, then (length, raw snappy block)...
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

# The first guess of the decompressed size; a wrong one costs another run with eight times the room.
_ROOM_BYTES_MIN: Final = 64 * 1024
_ROOM_FACTOR: Final = 8


def compress(data: Buffer, compression: Compression, *, level: int | None = None) -> bytes:
    """`data` compressed and framed as Kafka's clients expect it. `level` None is Kafka's default."""
    if compression == Compression.NONE:
        return bytes(data)
    if compression == Compression.GZIP:
        compressor = zlib.compressobj(
            _GZIP_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS
        )
        return compressor.compress(data) + compressor.flush()
    cramjam = _library()
    if compression == Compression.SNAPPY:
        return _compress_snappy(cramjam, memoryview(data))
    if compression == Compression.LZ4:
        stream = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        stream.compress(bytes(data))
        return bytes(stream.finish())
    if compression == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompressionType(f"there is no compression codec {compression}; 0 to 4 are known")


def decompress(
    data: Buffer, compression: int, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytes | bytearray | memoryview:
    """The bytes that were compressed, at most `size_max` of them.

    Raises CorruptRecord when the data is damaged, truncated or would grow beyond `size_max`, and
    UnsupportedCompressionType for a codec number that is none.
    """
    if compression == Compression.NONE:
        return data
    if compression == Compression.GZIP:
        return _decompress_gzip(data, size_max)
    if compression == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), size_max)
    if compression == Compression.LZ4:
        return _decompress_with_room("lz4", data, size_max)
    if compression == Compression.ZSTD:
        return _decompress_with_room("zstd", data, size_max)
    raise UnsupportedCompressionType(f"there is no compression codec {compression}; 0 to 4 are known")


def _too_large(codec: str, size_max: int) -> CorruptRecord:
    return DecompressedTooLarge(
        f"a batch compressed with {codec} grows beyond {size_max} bytes; send smaller batches"
    )


def _decompress_gzip(data: Buffer, size_max: int) -> bytes:
    """Nearly all batches are one member. Others are given bit by bit, since zlib copies what a member leaves."""
    view = memoryview(data)
    parts: list[bytes] = []
    left = size_max
    position = 0
    window = len(view)
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            piece = view[position : position + window]
            if not piece:
                raise CorruptRecord("a batch compressed with gzip is cut off before its end")
            try:
                part = member.decompress(piece, left + 1)
            except zlib.error as error:
                raise CorruptRecord(f"a batch compressed with gzip is damaged: {error}") from error
            left -= len(part)
            if left < 0:
                raise _too_large("gzip", size_max)
            parts.append(part)
            position += len(piece) - len(member.unused_data)
            window *= 2
        if position == len(view):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        # A member costs as much as the bytes of a small one, also when it is empty.
        left -= _GZIP_MEMBER_BYTES
        if left < 0:
            raise _too_large("gzip", size_max)
        window = _GZIP_MEMBER_BYTES


def _library() -> ModuleType:
    """The door of the codecs other than gzip: most brokers never open a batch."""
    import cramjam

    return cramjam


def _compress_snappy(cramjam: ModuleType, data: memoryview) -> bytes:
    framed = bytearray(_XERIAL_HEADER)
    for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
        framed += len(block).to_bytes(4, "big")
        framed += block
    return bytes(framed)


def _decompress_snappy(data: memoryview, size_max: int) -> bytes | bytearray:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, size_max)
    parts = bytearray()
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise CorruptRecord("a batch compressed with snappy is cut off in its header")
    while position < len(data):
        block_size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if block_size < 0 or block_size > len(data) - position:
            raise CorruptRecord(
                f"a batch compressed with snappy has a block of {block_size} bytes"
                f" where {max(len(data) - position, 0)} are left"
            )
        if len(parts) + _snappy_size(data[position : position + block_size]) > size_max:
            raise _too_large("snappy", size_max)
        parts += _decompress_snappy_block(data[position : position + block_size], size_max - len(parts))
        position += block_size
    return parts


def _snappy_size(block: memoryview) -> int:
    cramjam = _library()
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"a batch compressed with snappy is damaged: {error}") from error
    return size


def _decompress_snappy_block(block: memoryview, size_max: int) -> bytes:
    cramjam = _library()
    size = _snappy_size(block)
    if size > size_max:
        raise _too_large("snappy", size_max)
    # A compressed byte pair copies 64 bytes at most. So no room is reserved for a larger claim: it is false.
    if size > 64 * len(block):
        raise CorruptRecord(
            f"a batch compressed with snappy claims {size} bytes in a block of {len(block)},"
            " more than snappy can pack"
        )
    room = bytearray(size)
    try:
        written = cramjam.snappy.decompress_raw_into(block, room)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"a batch compressed with snappy is damaged: {error}") from error
    return bytes(memoryview(room)[:written])


def _decompress_with_room(codec: str, data: Buffer, size_max: int) -> memoryview:
    """Into a buffer of a guessed size, and into larger ones up to `size_max` as long as it does not fit."""
    cramjam = _library()
    if not len(data):
        raise CorruptRecord(f"a batch compressed with {codec} is empty")
    module = getattr(cramjam, codec)
    size = min(size_max, max(_ROOM_BYTES_MIN, _ROOM_FACTOR * len(data)))
    while True:
        room = bytearray(size) if size <= DECOMPRESSED_BYTES_OF_MALLOC_MAX else mmap(-1, size)
        try:
            written = module.decompress_into(data, room)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CorruptRecord(f"a batch compressed with {codec} is damaged: {error}") from error
            if size >= size_max:
                raise _too_large(codec, size_max) from error
            size = min(size_max, size * _ROOM_FACTOR)
            continue
        return memoryview(room)[:written]
