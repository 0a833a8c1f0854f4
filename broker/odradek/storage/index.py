"""The two sparse indexes of a segment, in Kafka's format: where an offset lies, and which offset a time has.

    .index       int32 offset, relative to the segment's base; int32 position of its batch in the log file
    .timeindex   int64 timestamp ms; int32 offset, relative to the segment's base

An entry names the last offset of a batch. Both keys rise strictly from entry to entry, big-endian, no header.

Nothing is loaded at start. Entries stay in memory until a few hundred are due, then go to the file in one write. A
binary search reads the file: the page cache is the index's memory, so a thousand idle partitions cost nothing. A
process that dies loses the entries that it did not write. Their segment lies above the recovery point then, and the
scan of the next start rebuilds its indexes. So an index only says where to start reading. The reader checks that a
batch with the entry's offset is there, and raises `IndexDamagedError` when not.

One thread writes; another one may search at the same time. Entries move from memory to the file in an order that leaves
none out. The file comes first, the count of stored entries next, the list in memory last.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import ClassVar, Final

from odradek.storage.files import Disk, DiskFile

# So many entries are read at once when the binary search has come close.
_BLOCK_ENTRIES: Final = 64
# Above every value, so that a search compares pairs and finds the last one of a key.
_VALUE_MAX: Final = 2**63


class IndexDamagedError(Exception):
    """An index contradicts itself or its log. It is rebuilt from the log; no caller of `storage` sees this."""


class SparseIndex:
    """Pairs of rising key and value on disk, the newest of them still in memory."""

    __slots__ = ("_disk", "_file", "_last_stored", "_stored", "base_offset", "count", "path", "unwritten")

    _entry: ClassVar[struct.Struct]

    def __init__(self, path: str, *, disk: Disk, base_offset: int, size_bytes: int = 0) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        # How many entries the file has; those after them are in memory.
        self._stored = stored = size_bytes // self._entry.size
        # All entries, those in memory too; every append asks for it.
        self.count = stored
        # The last of them, once it was read: it is asked for with every new entry.
        self._last_stored: tuple[int, int] | None = None
        # Those in memory. The appender writes them when they are INDEX_ENTRIES_UNWRITTEN_MAX.
        self.unwritten: list[tuple[int, int]] = []
        self._file: DiskFile | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def size_bytes(self) -> int:
        """The file's size once all entries are written."""
        return len(self) * self._entry.size

    def append(self, key: int, value: int) -> None:
        """Add an entry whose key is above the last one's; it stays in memory until `write`."""
        self.unwritten.append((key, value))
        self.count += 1

    def last(self) -> tuple[int, int] | None:
        """The newest entry. Raises IndexDamagedError when the file is shorter than it was."""
        if self.unwritten:
            return self.unwritten[-1]
        if not self._stored:
            return None
        if self._last_stored is None:
            self._last_stored = self.entry(self._stored - 1)
        return self._last_stored

    def entry(self, number: int) -> tuple[int, int]:
        """Entry `number`, from 0. Raises IndexDamagedError when the file does not hold it."""
        if number >= self._stored:
            return self.unwritten[number - self._stored]
        size = self._entry.size
        data = self._open().pread(number * size, size)
        if len(data) != size:
            raise IndexDamagedError(f"{self.path} ends before its entry {number}")
        key, value = self._entry.unpack(data)
        return key, value

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`; None when all are."""
        unwritten = self.unwritten
        if unwritten and key >= unwritten[0][0]:
            return unwritten[bisect_right(unwritten, (key, _VALUE_MAX)) - 1]
        return self._find_stored_floor(key)

    def _find_stored_floor(self, key: int) -> tuple[int, int] | None:
        low, high = 0, self._stored
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.entry(middle)[0] <= key:
                low = middle
            else:
                high = middle
        if low == high:
            return None
        size = self._entry.size
        data = self._open().pread(low * size, (high - low) * size)
        if len(data) != (high - low) * size:
            raise IndexDamagedError(f"{self.path} ends before its entry {high - 1}")
        entries = list(self._entry.iter_unpack(data))
        number = bisect_right(entries, (key, _VALUE_MAX)) - 1
        return entries[number] if number >= 0 else None

    def ceiling_of_value(self, value: int) -> tuple[int, int] | None:
        """The first entry whose value is `value` or above, None for none: values rise with the keys."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[1] < value:
                low = middle + 1
            else:
                high = middle
        return self.entry(low) if low < self.count else None

    def truncate(self, key: int) -> None:
        """Forget the entries whose key is `key` or above."""
        while self.unwritten and self.unwritten[-1][0] >= key:
            self.unwritten.pop()
            self.count -= 1
        if self.unwritten:
            return
        stored = self._stored
        while stored and self.entry(stored - 1)[0] >= key:
            stored -= 1
        self._truncate_stored(stored)

    def _truncate_stored(self, stored: int) -> None:
        if stored != self._stored:
            self._last_stored = None
            self._open().truncate(stored * self._entry.size)
            self._stored = self.count = stored

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Put these entries in the place of all that there were, on disk too. Raises OSError."""
        packed = self._pack_entries(entries)
        file = self._open()
        file.truncate(0)
        self._stored = 0
        self._last_stored = None
        self.unwritten = entries
        self.count = len(entries)
        file.append(packed)
        self._stored = len(entries)
        self._last_stored = entries[-1] if entries else None
        self.unwritten = []

    def write(self) -> None:
        """Append the entries in memory to the file, made when absent. Raises OSError, and keeps them then."""
        file = self._open()
        position = self._stored * self._entry.size
        if file.size > position:
            # What a crashed or failed write left, or the zeros of a file that Kafka had preallocated.
            file.truncate(position)
        unwritten = self.unwritten
        if unwritten:
            file.append(self._pack_entries(unwritten))
            self._last_stored = unwritten[-1]
            self._stored += len(unwritten)
            self.unwritten = []

    def _pack_entries(self, entries: list[tuple[int, int]]) -> bytes:
        return b"".join([self._entry.pack(key, value) for key, value in entries])

    def close(self) -> None:
        """Drop the open file; it opens again when it is needed."""
        self._file = None

    def _open(self) -> DiskFile:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path, create=True)
        return file


OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetIndex(SparseIndex):
    """The `.index` of the segment at `base_offset`."""

    __slots__ = ()

    _entry = OFFSET_ENTRY

    def position_before(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of a batch at or before the one that holds `offset`; (-1, 0): the file's start."""
        found = self.floor(offset - self.base_offset)
        if found is None:
            return -1, 0
        if found[0] <= 0 and found[1] <= 0 and self._stored > 1:
            raise IndexDamagedError(f"{self.path} has an entry of zeros")
        return found[0] + self.base_offset, found[1]

    def offset_behind(self, position: int) -> int | None:
        """An offset above those of all batches before `position`; None when no entry lies behind it."""
        found = self.ceiling_of_value(position)
        return None if found is None else found[0] + self.base_offset


class TimeIndex(SparseIndex):
    """The `.timeindex` of the segment at `base_offset`."""

    __slots__ = ()

    _entry = TIME_ENTRY

    def entry_before(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry that is not newer; None when all are. All before it is older."""
        found = self.floor(timestamp_ms)
        return None if found is None else (found[0], found[1] + self.base_offset)

    def truncate_offsets(self, offset: int) -> None:
        """Forget the entries of `offset` and above; values rise with the keys."""
        relative = offset - self.base_offset
        count = len(self)
        while count and self.entry(count - 1)[1] >= relative:
            count -= 1
        if count >= self._stored:
            del self.unwritten[count - self._stored :]
            self.count = count
        else:
            self.unwritten = []
            self.count = self._stored
            self._truncate_stored(count)
