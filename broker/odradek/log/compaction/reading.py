"""Reads the batches of a closed segment, many at a time, each checked against its CRC.

Cleaning removes records because of others that are newer. So a damaged key must not enter the map, and a damaged batch
must not get a new CRC: the round ends with CorruptRecord instead. Message sets of the formats before 2 are given as the
batch that they become when one of their records goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.foundation.errors import CorruptRecord
from odradek.log.files import DiskFile
from odradek.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
    verified_header,
)
from odradek.records.compression import Compression, decompress
from odradek.records.legacy import upconvert


class StoredBatch:
    """A batch as it lies in a segment. `raw` are its bytes, `header` the fields of its version 2."""

    __slots__ = ("_payload", "codec", "end", "header", "is_legacy", "raw")

    def __init__(self, raw: memoryview, *, end: int) -> None:
        self.raw = raw
        # The position after it in its file.
        self.end = end
        self._payload: bytes | bytearray | memoryview | None = None
        self.is_legacy = raw[MAGIC_POSITION] < 2
        if self.is_legacy:
            # In a message, offset, size, CRC and magic come before the attributes, which take one byte.
            self.codec = Compression(raw[MAGIC_POSITION + 1] & COMPRESSION_MASK)
            converted = upconvert(raw)
            self.header: BatchHeader = read_header(converted)
            self._payload = memoryview(converted)[HEADER_BYTES:]
        else:
            self.header = verified_header(raw)
            self.codec = self.header.compression

    @property
    def payload(self) -> bytes | bytearray | memoryview:
        """The records, decompressed once. Raises CorruptRecord."""
        if self._payload is None:
            self._payload = decompress(self.raw[HEADER_BYTES:], self.codec)
        return self._payload


def windows(
    file: DiskFile,
    size_bytes: int,
    *,
    window_bytes: int,
    on_read: Callable[[int], None],
) -> Iterator[list[StoredBatch]]:
    """All batches of the first `size_bytes` of a file, about `window_bytes` at a time.

    `on_read` is called with the size of each read. Raises CorruptRecord, OSError.
    """
    position = 0
    room = window_bytes
    while position < size_bytes:
        data = file.pread(position, min(room, size_bytes - position))
        on_read(len(data))
        batches, used = _split(memoryview(data), position)
        if not batches:
            # One batch may be larger than a window.
            if len(data) < LOG_OVERHEAD_BYTES or position + len(data) >= size_bytes:
                raise CorruptRecord(f"{file.path} ends in the middle of a batch, at position {position}")
            room = max(int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD_BYTES, 2 * room)
            continue
        room = window_bytes
        position += used
        yield batches


def _split(data: memoryview, position: int) -> tuple[list[StoredBatch], int]:
    """The whole batches in `data`, and how many bytes they take."""
    found = []
    at, size = 0, len(data)
    while size - at > MAGIC_POSITION:
        length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
        if length <= MAGIC_POSITION:
            raise CorruptRecord(f"a batch at position {position + at} gives its size as {length} bytes")
        if at + length > size:
            break
        found.append(StoredBatch(data[at : at + length], end=position + at + length))
        at += length
    return found, at
