"""The map from keys to offsets, as the two passes use it, and the plain one, which needs no other package.

A map says, for keys of the dirty part of a log, at which offset the newest record of the key is. It is exact: a record
is found superseded only where a newer one has the same bytes as its key.

    hash    uint64   of the key; 0: a free slot
    offset  int64    of the newest record
    place   int64    of the key's bytes in the key store

Both maps are tables with double hashing and 24 bytes a slot. `vector_map` works on all keys of a portion at once by
numpy. The plain map takes one key after the other: about four times the processor time.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Final, NamedTuple, Protocol

from odradek.foundation.errors import CorruptRecord
from odradek.storage.compaction.reading import StoredBatch
from odradek.storage.files import take_room
from odradek.wire.records.record import record_spans

SLOT_BYTES: Final = 24
_HASH_MASK: Final = (1 << 64) - 1
# Other bits of the hash than those that choose the first slot.
_STEP_SHIFT: Final = 17
_KEY_SIZE: Final = struct.Struct("<I")
_KEY_STORE_BYTES_MIN: Final = 1 << 20


class Kept(NamedTuple):
    """The part of a batch's records that stays."""

    record_count: int
    payload: bytes | None
    """The records that stay, not compressed; None when all stay."""
    has_tombstone: bool
    """Whether a record without value is among them."""
    max_timestamp_ms: int
    """The newest of their timestamps by delta; of no account when all stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The condition for removing a tombstone: its batch's horizon is over, and it lies below the bound."""

    now_ms: int
    removal_bound_offset: int

    def is_over(self, batch: StoredBatch) -> bool:
        """Whether the tombstones of this batch may go."""
        header = batch.header
        return (
            header.has_delete_horizon
            and header.base_timestamp_ms <= self.now_ms
            and header.last_offset < self.removal_bound_offset
        )


class OffsetMap(Protocol):
    """Filled by the first pass, asked by the second."""

    latest_offset: int
    """Records above it are not known; -1 while it knows none."""

    def __len__(self) -> int:
        """The number of its keys."""
        ...

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        ...

    @property
    def fill_ratio(self) -> float:
        """The part of its bound that its keys take; 1.0 when it is full."""
        ...

    def add(self, batches: Sequence[StoredBatch], from_offset: int) -> bool:
        """Note the keys of these batches, the records below `from_offset` left out; whether the map is full.

        A map that is full has noted all up to `latest_offset`. Raises CorruptRecord.
        """
        ...

    def keep_newest(self, batches: Sequence[StoredBatch], retention: Retention) -> list[Kept]:
        """The part of each batch that stays. Raises CorruptRecord."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


def slots_for(*, capacity_bytes: int, load_factor: float, records_max: int) -> int:
    """The slots of a table: a prime, at least 7. Not more than `records_max` keys need, so a small log takes little."""
    slots = max(capacity_bytes // SLOT_BYTES, 8)
    return _prime_at_most(min(slots, max(int(records_max / load_factor) + 64, 64)))


def _prime_at_most(number: int) -> int:
    """The largest prime that is not above `number`, 7 at least: every step through the table meets every slot."""
    for candidate in range(max(number, 7), 6, -1):
        if all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            return candidate
    return 7


def map_key_file(file: IO[bytes], used_bytes: int) -> mmap.mmap:
    """Map a file of keys with twice the room that they take, so that it grows seldom. Raises OSError.

    Room is taken for real: a full disk must end the round with an error, not the process with a signal.
    """
    size_bytes = max(2 * used_bytes, _KEY_STORE_BYTES_MIN)
    take_room(file.fileno(), size_bytes)
    return mmap.mmap(file.fileno(), size_bytes)


class KeyStore:
    """The bytes of keys, each after its size: in a file without a name in `directory`, else in memory.

    The page cache may write the file out and forget it, and a crash leaves nothing.
    """

    def __init__(self, directory: str | None) -> None:
        self._file = None if directory is None else tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - `close`
        self._data: mmap.mmap | bytearray = bytearray()
        self._used = 0

    def append(self, entry: bytes) -> int:
        """Keep an entry of `entry_of`; its place."""
        place, end = self._used, self._used + len(entry)
        if end > len(self._data):
            self._reserve(end)
        self._data[place:end] = entry
        self._used = end
        return place

    def has(self, entry: bytes, place: int) -> bool:
        """Whether this entry is at that place."""
        return self._data[place : place + len(entry)] == entry

    def close(self) -> None:
        self._data = bytearray()
        if self._file is not None:
            self._file.close()

    def _reserve(self, size_bytes: int) -> None:
        if self._file is not None:
            self._data = map_key_file(self._file, size_bytes)
        else:
            self._data = bytearray(self._data) + bytes(
                max(2 * size_bytes, _KEY_STORE_BYTES_MIN) - len(self._data)
            )


def entry_of(key: bytes) -> bytes:
    """A key as it is stored and compared: with its size, so that no key is the beginning of another."""
    return _KEY_SIZE.pack(len(key)) + key


class PlainOffsetMap:
    """See `OffsetMap`. `records_max` is how many records may come. Without `keys_directory` keys are kept in memory."""

    def __init__(
        self, *, capacity_bytes: int, load_factor: float, records_max: int, keys_directory: str | None
    ) -> None:
        self.latest_offset = -1
        self._slots = slots_for(
            capacity_bytes=capacity_bytes, load_factor=load_factor, records_max=records_max
        )
        self._keys_max = int(capacity_bytes * load_factor) // SLOT_BYTES
        # A free slot ends each search.
        self._entries_max = min(int(self._slots * load_factor), self._slots - 1, self._keys_max)
        self._hashes = array("Q", (0,)) * self._slots
        self._offsets = array("q", (0,)) * self._slots
        self._places = array("q", (0,)) * self._slots
        self._used = 0
        self._keys = KeyStore(keys_directory)

    def __len__(self) -> int:
        return self._used

    @property
    def size_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    @property
    def fill_ratio(self) -> float:
        return self._used / max(self._keys_max, 1)

    def add(self, batches: Sequence[StoredBatch], from_offset: int) -> bool:
        for batch in batches:
            header = batch.header
            payload = bytes(batch.payload)
            for span in record_spans(payload, record_count=header.record_count):
                offset = header.base_offset + span.offset_delta
                if span.key_start < 0 or offset < from_offset:
                    continue
                if not self._put(payload[span.key_start : span.key_end], offset):
                    return True
                self.latest_offset = offset
            self.latest_offset = max(self.latest_offset, header.last_offset)
        return False

    def _put(self, key: bytes, offset: int) -> bool:
        """Note the newest offset of a key; whether there was room for it."""
        entry = entry_of(key)
        slot, hashed = self._find(entry)
        if not self._hashes[slot]:
            if self._used >= self._entries_max:
                return False
            self._places[slot] = self._keys.append(entry)
            self._hashes[slot] = hashed
            self._used += 1
        self._offsets[slot] = offset
        return True

    def _find(self, entry: bytes) -> tuple[int, int]:
        """The slot of a key, or the free one that it would have, and the key's hash."""
        hashes, slots = self._hashes, self._slots
        # Python salts it for each process.
        hashed = hash(entry) & _HASH_MASK or 1
        slot, step = hashed % slots, (hashed >> _STEP_SHIFT) % (slots - 1) + 1
        while (there := hashes[slot]) and not (there == hashed and self._keys.has(entry, self._places[slot])):
            slot = (slot + step) % slots
        return slot, hashed

    def _newest(self, key: bytes) -> int:
        """The offset of a key's newest record, -1 for a key that it does not know."""
        slot, _ = self._find(entry_of(key))
        return self._offsets[slot] if self._hashes[slot] else -1

    def keep_newest(self, batches: Sequence[StoredBatch], retention: Retention) -> list[Kept]:
        return [self._keep_of_batch(batch, is_over=retention.is_over(batch)) for batch in batches]

    def _keep_of_batch(self, batch: StoredBatch, *, is_over: bool) -> Kept:
        header = batch.header
        payload = bytes(batch.payload)
        parts = []
        has_tombstone = False
        newest_ms = -1
        before = -1
        for span in record_spans(payload, record_count=header.record_count):
            if not before < span.offset_delta <= header.last_offset_delta:
                raise CorruptRecord(
                    f"the batch at offset {header.base_offset} has the offset delta {span.offset_delta} after {before}"
                )
            before = span.offset_delta
            offset = header.base_offset + span.offset_delta
            if offset <= self.latest_offset:
                if span.key_start < 0:
                    continue
                newest = self._newest(payload[span.key_start : span.key_end])
                if offset < newest or (span.value_start < 0 and is_over):
                    continue
                has_tombstone = has_tombstone or span.value_start < 0
            newest_ms = max(newest_ms, header.base_timestamp_ms + span.timestamp_delta_ms)
            parts.append(payload[span.start : span.end])
        is_whole = len(parts) == header.record_count
        return Kept(len(parts), None if is_whole else b"".join(parts), has_tombstone, newest_ms)

    def close(self) -> None:
        self._keys.close()
        self._hashes = array("Q", (0,))
        self._offsets = self._places = array("q", (0,))
