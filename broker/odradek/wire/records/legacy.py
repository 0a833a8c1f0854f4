"""Message sets of magic 0 and 1, which Kafka wrote before 0.11: read, and turned into a batch of magic 2.

    0   int64   offset
    8   int32   size              bytes after this field
    12  uint32  CRC-32            (zlib's) of everything from byte 16 on
    16  int8    magic             0 or 1
    17  int8    attributes        0-2 codec, 3 log-append time
    18  int64   timestamp         ms; magic 1 only
    ..  int32   key length, -1 for null; key
    ..  int32   value length, -1 for null; value

A compressed message is a wrapper whose value is a message set. Its own offset is that of the last message
inside; inside, magic 1 counts from 0 and magic 0 has the offsets themselves. With log-append time the
wrapper's timestamp counts for all of them. Clients may not write these formats any more; only old log directories
have them. Offset, size and magic have the positions that they have in a batch, so a file is walked in the same way.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    Buffer,
    TimestampType,
)
from odradek.wire.records.builder import BatchBuilder
from odradek.wire.records.compression import Compression, decompress
from odradek.wire.records.record import Record

# From the magic byte on: magic, attributes, key length and value length.
SIZE_MIN_BY_MAGIC: Final = {0: 4 + 1 + 1 + 4 + 4, 1: 4 + 1 + 1 + 8 + 4 + 4}

_FRONT: Final = struct.Struct(">qiIbb")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_DELTA_MAX: Final = 2**31 - 1

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"


def magic_at(buffer: Buffer, position: int = 0) -> int:
    """The magic of the batch or message at `position`, signed. Raises CorruptRecord when it is torn."""
    if len(buffer) <= position + MAGIC_POSITION:
        raise CorruptRecord(f"no batch or message can begin at byte {position} of {len(buffer)}")
    magic = buffer[position + MAGIC_POSITION]
    return magic if magic < 0x80 else magic - 0x100


def messages(buffer: Buffer, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> Iterator[Record]:
    """The messages of a set with their offsets, those inside compressed ones too. CRCs are checked.

    A message of magic 0 has the timestamp -1. Raises CorruptRecord for damage, a torn tail or another magic.
    """
    for record, _ in _messages(memoryview(buffer), size_max=size_max):
        yield record


def upconvert(
    buffer: Buffer, *, leader_epoch: int = -1, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytearray:
    """A message set as one uncompressed batch of magic 2, with its offsets and their gaps.

    The batch has log-append time when all its messages have, and then the newest one's. Raises CorruptRecord
    for damage, for an empty set, and for offsets that fall or span more than 2^31.
    """
    builder = BatchBuilder()
    base_offset = base_timestamp_ms = -1
    is_append_time = True
    for record, has_append_time in _messages(memoryview(buffer), size_max=size_max):
        if not len(builder):
            base_offset, base_timestamp_ms = record.offset, record.timestamp_ms
        if not -(2**63) <= record.timestamp_ms - base_timestamp_ms < 2**63:
            raise CorruptRecord(f"the timestamp {record.timestamp_ms} at offset {record.offset} cannot be")
        delta = record.offset - base_offset
        if not len(builder) <= delta <= _OFFSET_DELTA_MAX:
            raise CorruptRecord(
                f"the offset {record.offset} in a message set that begins at {base_offset} cannot stand"
                " in one batch"
            )
        try:
            builder.append(record.timestamp_ms, record.key, record.value, offset_delta=delta)
        except ValueError as error:
            raise CorruptRecord(
                f"offsets fall in the message set that begins at {base_offset}: {error}"
            ) from error
        is_append_time = is_append_time and has_append_time
    if not len(builder):
        raise CorruptRecord("a message set without messages cannot become a batch")
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
    )


def _messages(buffer: memoryview, *, size_max: int) -> Iterator[tuple[Record, bool]]:
    """Messages, each with whether its timestamp is the broker's."""
    position = 0
    while position < len(buffer):
        record, magic, attributes, position = _read_message(buffer, position)
        codec = attributes & COMPRESSION_MASK
        has_append_time = magic == 1 and attributes & LOG_APPEND_TIME_FLAG != 0
        if codec == Compression.NONE:
            yield record, has_append_time
        else:
            for inner in _unwrap(record, magic=magic, codec=codec, size_max=size_max):
                if has_append_time:
                    inner = inner._replace(timestamp_ms=record.timestamp_ms)
                yield inner, has_append_time


def _unwrap(wrapper: Record, *, magic: int, codec: int, size_max: int) -> list[Record]:
    """The messages inside a compressed one, their offsets made absolute."""
    if wrapper.value is None:
        raise CorruptRecord(f"the compressed message at offset {wrapper.offset} has no value")
    if codec > Compression.LZ4:
        raise CorruptRecord(
            f"a message of magic {magic} names the compression codec {codec}; 0 to 3 are known"
        )
    compressed = _mend_lz4(wrapper.value) if codec == Compression.LZ4 and magic == 0 else wrapper.value
    payload = memoryview(decompress(compressed, codec, size_max=size_max))
    found: list[Record] = []
    position = 0
    while position < len(payload):
        record, inner_magic, attributes, position = _read_message(payload, position)
        if inner_magic != magic or attributes & COMPRESSION_MASK:
            raise CorruptRecord(
                f"the compressed message at offset {wrapper.offset} holds one of magic {inner_magic} with"
                f" attributes {attributes:#04x}; only plain ones of magic {magic} may be inside"
            )
        found.append(record)
    if not found:
        raise CorruptRecord(f"the compressed message at offset {wrapper.offset} holds none")
    if magic == 0:
        return found
    base_offset = wrapper.offset - found[-1].offset
    return [record._replace(offset=base_offset + record.offset) for record in found]


def _read_message(buffer: memoryview, position: int) -> tuple[Record, int, int, int]:
    """The message at `position`, its magic and attributes, and the position after it."""
    left = len(buffer) - position
    if left < LOG_OVERHEAD_BYTES + SIZE_MIN_BY_MAGIC[0]:
        raise CorruptRecord(f"{left} bytes are left for a message at byte {position}; it needs 26 at least")
    offset, size, checksum, magic, attributes = _FRONT.unpack_from(buffer, position)
    if magic not in SIZE_MIN_BY_MAGIC:
        raise CorruptRecord(f"the message at byte {position} has magic {magic}; only 0 and 1 can be here")
    end = position + LOG_OVERHEAD_BYTES + size
    if size < SIZE_MIN_BY_MAGIC[magic] or end > len(buffer):
        raise CorruptRecord(
            f"the message at byte {position} (offset {offset}) gives its size as {size} bytes;"
            f" {SIZE_MIN_BY_MAGIC[magic]} are the least and {left - LOG_OVERHEAD_BYTES} are left"
        )
    computed = zlib.crc32(buffer[position + MAGIC_POSITION : end])
    if computed != checksum:
        raise CorruptRecord(
            f"the message at byte {position} (offset {offset}) has the checksum {computed:#010x}"
            f" where it says {checksum:#010x}"
        )
    cursor = position + MAGIC_POSITION + 2
    timestamp_ms = -1
    if magic == 1:
        timestamp_ms = int(_INT64.unpack_from(buffer, cursor)[0])
        cursor += 8
    key, cursor = _read_field(buffer, cursor, end, offset)
    value, cursor = _read_field(buffer, cursor, end, offset)
    if cursor != end:
        raise CorruptRecord(f"the message at offset {offset} has {end - cursor} bytes after its value")
    return Record(offset, timestamp_ms, key, value), magic, attributes, end


def _read_field(buffer: memoryview, position: int, end: int, offset: int) -> tuple[bytes | None, int]:
    if position + 4 > end:
        raise CorruptRecord(f"the message at offset {offset} ends before a length at byte {position}")
    size = int(_INT32.unpack_from(buffer, position)[0])
    position += 4
    if size == -1:
        return None, position
    if size < 0 or position + size > end:
        raise CorruptRecord(
            f"the message at offset {offset} has a field of {size} bytes; {end - position} are left"
        )
    return bytes(buffer[position : position + size]), position + size


def _mend_lz4(frame: bytes) -> bytes:
    """An lz4 frame with the right header checksum: writers of magic 0 took the magic in."""
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC:
        return frame
    descriptor_end = 6 + (8 if frame[4] & 0x08 else 0)
    if len(frame) <= descriptor_end:
        return frame
    checksum = (_xxh32_short(frame[4:descriptor_end]) >> 8) & 0xFF
    return frame[:descriptor_end] + bytes((checksum,)) + frame[descriptor_end + 1 :]


def _xxh32_short(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes, which is all that an lz4 frame descriptor has."""
    mask = 0xFFFFFFFF
    value = (0x165667B1 + len(data)) & mask
    position = 0
    while position + 4 <= len(data):
        lane = int.from_bytes(data[position : position + 4], "little")
        value = (value + lane * 0xC2B2AE3D) & mask
        value = ((value << 17 | value >> 15) & mask) * 0x27D4EB2F & mask
        position += 4
    for byte in data[position:]:
        value = (value + byte * 0x165667B1) & mask
        value = ((value << 11 | value >> 21) & mask) * 0x9E3779B1 & mask
    value = (value ^ value >> 15) * 0x85EBCA77 & mask
    value = (value ^ value >> 13) * 0xC2B2AE3D & mask
    return value ^ value >> 16
