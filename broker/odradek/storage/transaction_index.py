"""The aborted transactions of a segment, `.txnindex`: what a read-committed consumer has to leave out.

    int16 version 0; int64 producer id; int64 first offset; int64 last offset, the marker's; int64 last stable offset

The last stable offset is the one right after the marker was written. A search may stop at the first entry where it has
reached the reader's upper offset, since all later aborts begin above it. Most segments have no such file.
"""

from __future__ import annotations

import struct
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.files import Disk

_ENTRY: Final = struct.Struct(">hqqqq")
_ENTRIES_PER_READ: Final = 256


class AbortedTxn(NamedTuple):
    """A transaction whose records are not to be shown."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The file at `path`, made with its first entry."""

    __slots__ = ("_disk", "_has_file", "path")

    def __init__(self, path: str, *, disk: Disk, has_file: bool) -> None:
        self.path = path
        self._disk = disk
        self._has_file = has_file

    def append(self, aborted: AbortedTxn) -> None:
        """Add an abort whose marker was written. Raises OSError."""
        self._disk.open(self.path, create=True).append(_ENTRY.pack(0, *aborted))
        self._has_file = True

    def entries(self) -> list[AbortedTxn]:
        """All, in the order of their markers. Raises CorruptRecord, OSError."""
        if not self._has_file:
            return []
        data = self._disk.read(self.path)
        if len(data) % _ENTRY.size:
            raise CorruptRecord(f"{self.path} has {len(data)} bytes, which is not a whole number of entries")
        return self._decode(data)

    @property
    def is_empty(self) -> bool:
        """Whether no transaction of the segment was aborted, as far as is known without reading."""
        return not self._has_file

    def overlapping(self, fetch_offset: int, upper_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions with records in [fetch_offset, upper_offset), and whether later ones have none.

        Only the entries from there on are read: markers rise, so the first is found by halving. Raises CorruptRecord,
        OSError.
        """
        found: list[AbortedTxn] = []
        if not self._has_file:
            return found, False
        file = self._disk.open(self.path)
        size = _ENTRY.size
        if file.size % size:
            raise CorruptRecord(f"{self.path} has {file.size} bytes, which is not a whole number of entries")
        low, high = 0, file.size // size
        count = high
        while low < high:
            middle = (low + high) // 2
            if self._decode(file.pread(middle * size, size))[0].last_offset < fetch_offset:
                low = middle + 1
            else:
                high = middle
        for start in range(low, count, _ENTRIES_PER_READ):
            entries = self._decode(file.pread(start * size, min(_ENTRIES_PER_READ, count - start) * size))
            for entry in entries:
                if entry.first_offset < upper_offset:
                    found.append(entry)
                if entry.last_stable_offset >= upper_offset:
                    return found, True
        return found, False

    def _decode(self, data: bytes) -> list[AbortedTxn]:
        found = []
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != 0:
                raise CorruptRecord(f"{self.path} has an entry of version {version}; only 0 is known")
            found.append(AbortedTxn(*fields))
        return found

    def truncate(self, offset: int) -> None:
        """Forget the aborts whose marker is at `offset` or above; 0 forgets all. Raises CorruptRecord, OSError."""
        if not self._has_file:
            return
        file = self._disk.open(self.path)
        if offset == 0:
            file.truncate(0)
            return
        # A loss of power may have left a part of the last entry.
        whole = self._decode(file.pread(0, file.size - file.size % _ENTRY.size))
        file.truncate(sum(entry.last_offset < offset for entry in whole) * _ENTRY.size)
