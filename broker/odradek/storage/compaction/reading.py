"""Reads the batches of a closed segment, many at a time, each checked against its CRC.

Cleaning removes records because of others that are newer. So a damaged key must not enter the map, and a damaged batch
must not get a new CRC: the round ends with CorruptRecord instead. Message sets of the formats before 2 are given as the
batch that they become when one of their records goes.

A few megabytes of a log may hold gigabytes of records, so what is read at once says nothing of the memory that it
takes. `portions` decompresses batch by batch, and hands over what has been until its bound is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from odradek.foundation.errors import CorruptRecord
from odradek.storage.files import DiskFile
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
    verify_header,
)
from odradek.wire.records.compression import Compression, decompress
from odradek.wire.records.legacy import upconvert

T = TypeVar("T")

# What a record takes besides its bytes while a portion is worked on: columns of numbers, and what they become.
RECORD_BYTES: Final = 160


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
            self.header: BatchHeader = read_header(upconvert(raw))
        else:
            self.header = verify_header(raw)
            self.codec = self.header.compression

    @property
    def payload(self) -> bytes | bytearray | memoryview:
        """The records, decompressed once until `release`. Raises CorruptRecord."""
        if self._payload is None:
            if self.is_legacy:
                self._payload = memoryview(upconvert(self.raw))[HEADER_BYTES:]
            elif self.codec == Compression.NONE:
                self._payload = self.raw[HEADER_BYTES:]
            else:
                # Not the room that was guessed for them, which is several times as large.
                self._payload = bytes(decompress(self.raw[HEADER_BYTES:], self.codec))
        return self._payload

    def load(self) -> int:
        """Decompress the records; about how many bytes it takes to work on them. Raises CorruptRecord."""
        return len(self.payload) + RECORD_BYTES * max(self.header.record_count, 0)

    def release(self) -> None:
        """Give the decompressed records back."""
        self._payload = None


def portions(items: Iterable[T], *, size_of: Callable[[T], int], bytes_max: int) -> Iterator[list[T]]:
    """Items in their order, together not larger than `bytes_max`; one that is larger alone comes alone.

    `size_of` is called once for each item, when what came before has been handed over or fits with it.
    """
    found: list[T] = []
    held_bytes = 0
    for item in items:
        size_bytes = size_of(item)
        if found and held_bytes + size_bytes > bytes_max:
            yield found
            found, held_bytes = [], 0
        found.append(item)
        held_bytes += size_bytes
    if found:
        yield found


def windows(
    file: DiskFile, size_bytes: int, *, offsets: range, window_bytes: int, on_read: Callable[[int], None]
) -> Iterator[list[StoredBatch]]:
    """All batches of the first `size_bytes` of a file, about `window_bytes` at a time.

    `offsets` are those of its segment. `on_read` is called with the size of each read. Raises CorruptRecord, OSError.
    """
    position, last_offset = 0, -1
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
        last_offset = _check_order(batches, last_offset, offsets, file.path)
        yield batches


def _check_order(batches: Sequence[StoredBatch], last_offset: int, offsets: range, path: str) -> int:
    """The last offset of these batches, which follow `last_offset`. Raises CorruptRecord when one is out of its place.

    No CRC covers the base offset, by which the newest record of a key is known.
    """
    for batch in batches:
        header = batch.header
        # The first one may begin below its segment, where records of it were deleted.
        is_behind = (
            header.base_offset > last_offset if last_offset >= 0 else header.last_offset >= offsets.start
        )
        if not is_behind or header.last_offset >= offsets.stop:
            raise CorruptRecord(
                f"{path}, whose offsets are {offsets.start} to {offsets.stop - 1}, has a batch from "
                f"{header.base_offset} to {header.last_offset} behind offset {last_offset}"
            )
        last_offset = header.last_offset
    return last_offset


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
