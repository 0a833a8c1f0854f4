"""Batch headers read from a log file one after the other, without their records.

These batches were checked when they were appended or recovered. Only the lengths are checked again, so that a damaged
file ends in CorruptRecord instead of nonsense. Message sets of the formats before 2, which a directory of an old Kafka
may hold, have one entry each. Their headers give its last offset and its time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.storage.files import DiskFile
from odradek.wire.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)

# An entry of magic 0: offset, size, CRC, magic, attributes, and the lengths of a null key and a null value.
LEGACY_ENTRY_BYTES_MIN: Final = 26
_LEGACY_FRONT: Final = struct.Struct(">qiIbbq")

_CHUNK_BYTES: Final = 64 * 1024


def header_at(chunk: bytes | bytearray | memoryview, position: int) -> BatchHeader:
    """The header at `position`, of any format. Raises CorruptRecord when the chunk cannot hold one."""
    if len(chunk) - position > MAGIC_POSITION and chunk[position + MAGIC_POSITION] < 2:
        return _legacy_header(chunk, position)
    return read_header(chunk, position)


def _legacy_header(chunk: bytes | bytearray | memoryview, position: int) -> BatchHeader:
    if len(chunk) - position < LEGACY_ENTRY_BYTES_MIN:
        raise CorruptRecord(
            f"{len(chunk) - position} bytes are left where a message of 26 bytes or more should be"
        )
    offset, length, crc, magic, attributes, timestamp_ms = _LEGACY_FRONT.unpack_from(chunk, position)
    if magic == 0:
        timestamp_ms = -1
    return BatchHeader(
        offset, length, -1, magic, crc, attributes, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1
    )


def headers(file: DiskFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch from `position`, where one begins, up to `end`.

    Raises CorruptRecord where a length does not fit, OSError when the disk fails.
    """
    chunk = b""
    chunk_position = position
    while position < end:
        in_chunk = position - chunk_position
        if len(chunk) - in_chunk < HEADER_BYTES:
            chunk = file.pread(position, min(_CHUNK_BYTES, end - position))
            chunk_position = position
            in_chunk = 0
        header = header_at(chunk, in_chunk)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size < LEGACY_ENTRY_BYTES_MIN or position + size > end or header.last_offset_delta < 0:
            raise CorruptRecord(
                f"{file.path} has a batch of {size} bytes at position {position}, {end - position} bytes before its "
                "end. The file is damaged: remove .kafka_cleanshutdown and restart the broker to recover it."
            )
        yield position, header
        position += size
