"""The two sparse indexes of a segment, in Kafka's format: where an offset lies, and which offset a time has.

    .index       int32 offset, relative to the segment's base; int32 position of its batch in the log file
    .timeindex   int64 timestamp ms; int32 offset, relative to the segment's base

An entry names the last offset of a batch. Both keys rise strictly from entry to entry, big-endian, no header.

Nothing is loaded at start and little is kept: entries stay in memory until a few hundred are due, then go to the
file in one write, and a search reads the file by halves. The page cache is the index's memory, so a thousand idle
partitions cost nothing, and an append pays for no index write. Entries that were never written are lost with the
process; the segment that they belong to lies above the recovery point then and is scanned anyway, which builds
them anew. For the same reason an index is never trusted for more than a place to start reading from: the reader
checks that a batch with the entry's offset is there, and raises `IndexDamagedError` when not.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

from odradek.foundation.limits import INDEX_ENTRIES_UNWRITTEN_MAX
from odradek.log.files import Disk, DiskFile

# So many entries are read at once when the halving has come close.
_BLOCK_ENTRIES: Final = 64


class IndexDamagedError(Exception):
    """An index contradicts itself or its log. It is rebuilt from the log; nobody outside `log` sees this."""


class SparseIndex:
    """Pairs of rising key and value on disk, the newest of them still in memory. One writer."""

    __slots__ = ("_disk", "_entry", "_file", "_keys", "_last_stored", "_stored", "_values", "count", "path")

    def __init__(self, path: str, *, disk: Disk, entry: struct.Struct, stored: int) -> None:
        self.path = path
        self._disk = disk
        self._entry = entry
        # Entries in the file. Those after them are in the two lists.
        self._stored = stored
        # All entries, those in memory too; every append asks for it.
        self.count = stored
        # The last of them, once it was read: it is asked for with every new entry.
        self._last_stored: tuple[int, int] | None = None
        self._keys: list[int] = []
        self._values: list[int] = []
        self._file: DiskFile | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def size_bytes(self) -> int:
        """What the file has once all entries are written."""
        return len(self) * self._entry.size

    def append(self, key: int, value: int) -> None:
        """Add an entry whose key is above the last one's; it stays in memory until `write`."""
        self._keys.append(key)
        self._values.append(value)
        self.count += 1

    @property
    def is_write_due(self) -> bool:
        """Whether memory holds as many entries as it should."""
        return len(self._keys) >= INDEX_ENTRIES_UNWRITTEN_MAX

    def last(self) -> tuple[int, int] | None:
        """The newest entry. Raises IndexDamagedError when the file is shorter than it was."""
        if self._keys:
            return self._keys[-1], self._values[-1]
        if not self._stored:
            return None
        if self._last_stored is None:
            self._last_stored = self.entry(self._stored - 1)
        return self._last_stored

    def entry(self, number: int) -> tuple[int, int]:
        """Entry `number`, from 0. Raises IndexDamagedError when the file does not hold it."""
        if number >= self._stored:
            return self._keys[number - self._stored], self._values[number - self._stored]
        size = self._entry.size
        data = self._open().pread(number * size, size)
        if len(data) != size:
            raise IndexDamagedError(f"{self.path} ends before its entry {number}")
        key, value = self._entry.unpack(data)
        return key, value

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`; None when all are."""
        keys = self._keys
        if keys and key >= keys[0]:
            place = bisect_right(keys, key) - 1
            return keys[place], self._values[place]
        return self._floor_stored(key)

    def _floor_stored(self, key: int) -> tuple[int, int] | None:
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
        place = bisect_right(entries, key, key=_key) - 1
        return entries[place] if place >= 0 else None

    def truncate(self, key: int) -> None:
        """Forget the entries whose key is `key` or above."""
        while self._keys and self._keys[-1] >= key:
            self._keys.pop()
            self._values.pop()
            self.count -= 1
        if self._keys:
            return
        stored = self._stored
        while stored and self.entry(stored - 1)[0] >= key:
            stored -= 1
        self._cut(stored)

    def _cut(self, stored: int) -> None:
        if stored != self._stored:
            self._last_stored = None
            self._open().truncate(stored * self._entry.size)
            self._stored = self.count = stored

    def replace(self, keys: list[int], values: list[int]) -> None:
        """Put these entries in the place of all that there were, on disk too."""
        packed = b"".join(map(self._entry.pack, keys, values))
        file = self._open()
        file.truncate(0)
        self._stored = 0
        self._last_stored = None
        self._keys, self._values = keys, values
        self.count = len(keys)
        file.append(packed)
        self._stored = len(keys)
        self._last_stored = (keys[-1], values[-1]) if keys else None
        self._keys, self._values = [], []

    def write(self) -> None:
        """Bring the entries in memory to the file, made when absent. Raises OSError, and keeps them then."""
        file = self._open()
        position = self._stored * self._entry.size
        if file.size > position:
            # What a crashed or failed write left, or the zeros of a file that Kafka had preallocated.
            file.truncate(position)
        if self._keys:
            file.append(b"".join(map(self._entry.pack, self._keys, self._values)))
            self._stored += len(self._keys)
            self._last_stored = self._keys[-1], self._values[-1]
            self._keys, self._values = [], []

    def close(self) -> None:
        """Let go of the file; it opens again when it is needed."""
        self._file = None

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file


def _key(entry: tuple[int, int]) -> int:
    return entry[0]


OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetIndex(SparseIndex):
    """The `.index` of the segment at `base_offset`."""

    __slots__ = ("base_offset",)

    def __init__(self, path: str, *, disk: Disk, base_offset: int, size_bytes: int = 0) -> None:
        super().__init__(path, disk=disk, entry=OFFSET_ENTRY, stored=size_bytes // OFFSET_ENTRY.size)
        self.base_offset = base_offset

    def position_before(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of a batch at or before the one that holds `offset`; (-1, 0): the file's start.

        The entry's own batch may begin above `offset - 1` only when it holds `offset`.
        """
        found = self.floor(offset - self.base_offset)
        if found is None:
            return -1, 0
        if found[0] <= 0 and found[1] <= 0 and self._stored > 1:
            raise IndexDamagedError(f"{self.path} has an entry of zeros")
        return found[0] + self.base_offset, found[1]


class TimeIndex(SparseIndex):
    """The `.timeindex` of the segment at `base_offset`."""

    __slots__ = ("base_offset",)

    def __init__(self, path: str, *, disk: Disk, base_offset: int, size_bytes: int = 0) -> None:
        super().__init__(path, disk=disk, entry=TIME_ENTRY, stored=size_bytes // TIME_ENTRY.size)
        self.base_offset = base_offset

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
            del self._keys[count - self._stored :]
            del self._values[count - self._stored :]
            self.count = count
        else:
            self._keys, self._values = [], []
            self.count = self._stored
            self._cut(count)
