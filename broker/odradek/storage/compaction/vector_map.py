"""The map from keys to offsets by numpy: 24 bytes a key, whatever the key's length, and exact.

    hash    uint64   of the key, salted; 0: a free slot
    offset  int64    of the newest record
    place   int64    of the key's bytes in the key file

It is a table with double hashing. A hash alone proves nothing: wherever one is met again, the bytes of the keys are
compared. For that the first record with a hash writes its key into a file without a name in the log directory. The
page cache may write that file out and forget it. Where two keys share a hash, the second one goes into a small dict by
its bytes. So no record is lost however bad the hash is, and the hash need only be quick.

Keys of more than a kilobyte go into the dict, too. It counts for the map's bound by what it takes.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from odradek.storage.compaction.offset_map import SLOT_BYTES, Kept, Retention, map_key_file, slots_for
from odradek.storage.compaction.reading import StoredBatch
from odradek.wire.records.columns import Bools, Ints, RecordColumns

Words = NDArray[np.uint64]

# What a key takes in a dict of bytes, itself left out: table, object of the key, object of the offset.
ENTRY_BYTES: Final = 120
KEY_BYTES_MAX: Final = 1024
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND_MULTIPLIER: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF: Final = np.uint64(32)
_STEP_SHIFT: Final = np.uint64(17)


class VectorOffsetMap:
    """See `OffsetMap`. `records_max` is how many records may come; `hash_bits` below 64 is for tests of collisions."""

    def __init__(
        self,
        *,
        capacity_bytes: int,
        load_factor: float,
        records_max: int,
        keys_directory: str,
        hash_bits: int = 64,
    ) -> None:
        slots = slots_for(capacity_bytes=capacity_bytes, load_factor=load_factor, records_max=records_max)
        self.latest_offset = -1
        self._slots = slots
        self._bytes_max = int(capacity_bytes * load_factor)
        self._entries_max = min(int(slots * load_factor), slots - 1)
        self._hashes: Words = np.zeros(slots, np.uint64)
        self._offsets: Ints = np.zeros(slots, np.int64)
        self._places: Ints = np.zeros(slots, np.int64)
        self._used = 0
        self._keys = _KeyFile(keys_directory)
        self._others: dict[bytes, int] = {}
        self._others_bytes = 0
        self._salt = np.uint64(secrets.randbits(64))
        self._mask = np.uint64((1 << hash_bits) - 1)

    def __len__(self) -> int:
        return self._used + len(self._others)

    @property
    def size_bytes(self) -> int:
        return self._slots * SLOT_BYTES + self._others_bytes

    @property
    def fill_ratio(self) -> float:
        return (self._used * SLOT_BYTES + self._others_bytes) / max(self._bytes_max, 1)

    def close(self) -> None:
        self._keys.close()
        self._hashes = np.zeros(1, np.uint64)
        self._offsets = self._places = np.zeros(1, np.int64)
        self._others = {}

    # --- pass 1 ------------------------------------------------------------------------------------------------------

    def add(self, batches: Sequence[StoredBatch], from_offset: int) -> bool:
        if not batches:
            return False
        columns = Columns(batches)
        numbers = np.nonzero((columns.key_size >= 0) & (columns.offset >= from_offset))[0]
        while len(numbers):
            room = self._room()
            if room <= 0:
                return True
            # As many as there is room for if all are new.
            part, numbers = numbers[:room], numbers[room:]
            self._put(columns, part)
            self.latest_offset = int(columns.offset[part[-1]])
        self.latest_offset = max(self.latest_offset, batches[-1].header.last_offset)
        return False

    def _room(self) -> int:
        """The number of keys that still fit."""
        left = self._bytes_max - self._others_bytes
        return min(self._entries_max, left // SLOT_BYTES) - self._used

    def _put(self, columns: Columns, numbers: Ints) -> None:
        """Note records, ordered by offset."""
        is_long = columns.key_size[numbers] > KEY_BYTES_MAX
        if is_long.any():
            for number in numbers[is_long]:
                self._put_other(columns.key(number), int(columns.offset[number]))
            numbers = numbers[~is_long]
        if not len(numbers):
            return
        hashes = self._hash(columns, numbers)
        order = np.argsort(hashes, kind="stable")
        hashes, numbers = hashes[order], numbers[order]
        is_first = np.ones(len(hashes), np.bool_)
        is_first[1:] = hashes[1:] != hashes[:-1]
        is_last = np.ones(len(hashes), np.bool_)
        is_last[:-1] = is_first[1:]
        again = np.nonzero(~is_first)[0]
        is_same = self._are_same_keys(columns, numbers[again - 1], numbers[again])
        if not is_same.all():
            # Runs of one hash with several keys: one record after the other.
            run = np.cumsum(is_first)
            is_mixed = np.isin(run, run[again[~is_same]])
            for number, hashed in sorted(
                zip(numbers[is_mixed].tolist(), hashes[is_mixed].tolist(), strict=True)
            ):
                self._put_one(columns, number, hashed)
            is_last &= ~is_mixed
        self._put_distinct(columns, numbers[is_last], hashes[is_last])

    def _put_distinct(self, columns: Columns, numbers: Ints, hashes: Words) -> None:
        """Note records whose hashes are all different."""
        slots, is_new = self._claim(hashes)
        new, new_slots = numbers[is_new], slots[is_new]
        self._places[new_slots] = self._keys.append(columns, new)
        self._used += len(new)
        self._offsets[new_slots] = columns.offset[new]
        known, known_slots = numbers[~is_new], slots[~is_new]
        is_same = self._keys.equal(columns, known, self._places[known_slots])
        self._offsets[known_slots[is_same]] = columns.offset[known[is_same]]
        for number in known[~is_same]:
            self._put_other(columns.key(number), int(columns.offset[number]))

    def _claim(self, hashes: Words) -> tuple[Ints, Bools]:
        """The slot of each of these hashes, which are all different, and whether it was free."""
        found: Ints = np.empty(len(hashes), np.int64)
        is_new: Bools = np.zeros(len(hashes), np.bool_)
        waiting = np.arange(len(hashes))
        slot, step = self._first_slot(hashes)
        while len(waiting):
            wanted = hashes[waiting]
            there = self._hashes[slot]
            is_free = there == 0
            if is_free.any():
                # Several may want one free slot: the last one written has it.
                self._hashes[slot[is_free]] = wanted[is_free]
                there = self._hashes[slot]
            is_here = there == wanted
            found[waiting[is_here]] = slot[is_here]
            is_new[waiting[is_here]] = is_free[is_here]
            rest = ~is_here
            waiting, step = waiting[rest], step[rest]
            slot = (slot[rest] + step) % self._slots
        return found, is_new

    def _first_slot(self, hashes: Words) -> tuple[Ints, Ints]:
        slots = np.uint64(self._slots)
        first = (hashes % slots).astype(np.int64)
        step = (hashes >> _STEP_SHIFT) % np.uint64(self._slots - 1)
        return first, step.astype(np.int64) + 1

    def _put_one(self, columns: Columns, number: int, hashed: int) -> None:
        slots, is_new = self._claim(np.array([hashed], np.uint64))
        slot = int(slots[0])
        one = np.array([number])
        if is_new[0]:
            self._places[slot] = self._keys.append(columns, one)[0]
            self._used += 1
        elif not self._keys.equal(columns, one, self._places[slots])[0]:
            self._put_other(columns.key(number), int(columns.offset[number]))
            return
        self._offsets[slot] = columns.offset[number]

    def _put_other(self, key: bytes, offset: int) -> None:
        if key not in self._others:
            self._others_bytes += ENTRY_BYTES + len(key)
        self._others[key] = offset

    # --- pass 2 ------------------------------------------------------------------------------------------------------

    def keep_newest(self, batches: Sequence[StoredBatch], retention: Retention) -> list[Kept]:
        if not batches:
            return []
        columns = Columns(batches)
        is_known = columns.offset <= self.latest_offset
        is_over = np.fromiter((retention.is_over(batch) for batch in batches), np.bool_, len(batches))
        newest = self._newest(columns, np.nonzero((columns.key_size >= 0) & is_known)[0])
        stays = ~is_known | (
            (columns.key_size >= 0)
            & (columns.offset >= newest)
            & (columns.has_value | ~is_over[columns.batch])
        )
        is_tombstone = stays & is_known & ~columns.has_value
        counts = np.bincount(columns.batch[stays], minlength=len(batches))
        tombstones = np.bincount(columns.batch[is_tombstone], minlength=len(batches))
        is_mixed = (counts > 0) & (counts < columns.counts)
        payloads, newest_ms = _parts(columns, np.nonzero(stays & is_mixed[columns.batch])[0], batches)
        found = []
        for number, (count, total, tombstone_count) in enumerate(
            zip(counts.tolist(), columns.counts.tolist(), tombstones.tolist(), strict=True)
        ):
            payload = None if count == total else payloads.get(number, b"")
            found.append(Kept(count, payload, tombstone_count > 0, newest_ms.get(number, -1)))
        return found

    def _newest(self, columns: Columns, numbers: Ints) -> Ints:
        """For each record the offset of the newest one of its key, -1 where the map has none."""
        newest: Ints = np.full(len(columns), -1, np.int64)
        is_long = columns.key_size[numbers] > KEY_BYTES_MAX
        others = numbers[is_long]
        numbers = numbers[~is_long]
        slots = self._find(self._hash(columns, numbers))
        is_found = slots >= 0
        numbers, slots = numbers[is_found], slots[is_found]
        is_same = self._keys.equal(columns, numbers, self._places[slots])
        newest[numbers[is_same]] = self._offsets[slots[is_same]]
        if self._others:
            for number in (*others.tolist(), *numbers[~is_same].tolist()):
                newest[number] = self._others.get(columns.key(number), -1)
        return newest

    def _find(self, hashes: Words) -> Ints:
        """The slot of each hash, -1 for none."""
        found: Ints = np.full(len(hashes), -1, np.int64)
        waiting = np.arange(len(hashes))
        slot, step = self._first_slot(hashes)
        while len(waiting):
            there = self._hashes[slot]
            is_here = there == hashes[waiting]
            found[waiting[is_here]] = slot[is_here]
            rest = ~is_here & (there != 0)
            waiting, step = waiting[rest], step[rest]
            slot = (slot[rest] + step) % self._slots
        return found

    # --- keys --------------------------------------------------------------------------------------------------------

    def _hash(self, columns: Columns, numbers: Ints) -> Words:
        sizes = columns.key_size[numbers]
        hashes: Words = (sizes.astype(np.uint64) * _MULTIPLIER) ^ self._salt
        for word, which in _words_of(sizes):
            mixed = (hashes[which] ^ columns.key_word(numbers[which], word)) * _SECOND_MULTIPLIER
            hashes[which] = (mixed ^ (mixed >> _HALF)) * _MULTIPLIER
        hashes ^= hashes >> _HALF
        hashes &= self._mask
        hashes[hashes == 0] = 1
        return hashes

    def _are_same_keys(self, columns: Columns, left: Ints, right: Ints) -> Bools:
        is_same: Bools = columns.key_size[left] == columns.key_size[right]
        for word, which in _words_of(np.where(is_same, columns.key_size[left], 0)):
            is_same[which] &= columns.key_word(left[which], word) == columns.key_word(right[which], word)
        return is_same


class Columns(RecordColumns):
    """The records of stored batches, with their keys as bytes and as words that can be hashed and compared."""

    def __init__(self, batches: Sequence[StoredBatch]) -> None:
        super().__init__([batch.payload for batch in batches], [batch.header for batch in batches])
        # Any eight bytes as one word, whatever their alignment.
        self._words: Words = np.ndarray(
            (len(self.data) - 7,), np.dtype("<u8"), buffer=self.data, strides=(1,)
        )

    def key(self, number: int) -> bytes:
        """The bytes of one record's key."""
        start = int(self.key_start[number])
        return self.data[start : start + int(self.key_size[number])]

    def key_word(self, numbers: Ints, word: int) -> Words:
        """Eight bytes of each of these keys, from byte `8 * word` on; zeros behind a key's end."""
        found = self._words[self.key_start[numbers] + 8 * word]
        left = self.key_size[numbers] - 8 * word
        short = left < 8
        if short.any():
            bits = (8 * left[short]).astype(np.uint64)
            found[short] &= (np.uint64(1) << bits) - np.uint64(1)
        return found


class _KeyFile:
    """The bytes of keys, each as words of eight bytes after a word with its size."""

    def __init__(self, directory: str) -> None:
        # Without a name: a crash leaves nothing.
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self._words: Words = np.zeros(0, np.uint64)
        self._used = 0

    def append(self, columns: Columns, numbers: Ints) -> Ints:
        """Write the keys of these records; the place of each."""
        sizes = columns.key_size[numbers]
        taken = ((sizes + 7) >> 3) + 1
        places: Ints = self._used + np.cumsum(taken) - taken
        self._reserve(self._used + int(taken.sum()))
        self._words[places] = sizes.astype(np.uint64)
        for word, which in _words_of(sizes):
            self._words[places[which] + 1 + word] = columns.key_word(numbers[which], word)
        self._used += int(taken.sum())
        return places

    def equal(self, columns: Columns, numbers: Ints, places: Ints) -> Bools:
        """Whether the keys of these records are those at these places."""
        sizes = columns.key_size[numbers]
        if not len(numbers):
            return np.zeros(0, np.bool_)
        is_same: Bools = self._words[places] == sizes.astype(np.uint64)
        for word, which in _words_of(np.where(is_same, sizes, 0)):
            is_same[which] &= self._words[places[which] + 1 + word] == columns.key_word(numbers[which], word)
        return is_same

    def close(self) -> None:
        self._words = np.zeros(0, np.uint64)
        self._file.close()

    def _reserve(self, words: int) -> None:
        if words <= len(self._words):
            return
        self._words = np.frombuffer(map_key_file(self._file, 8 * words), np.uint64)


def _words_of(sizes: Ints) -> Iterator[tuple[int, slice | Ints]]:
    """(number of a word, which of the keys of these sizes have it)."""
    if not len(sizes):
        return
    words = (sizes + 7) >> 3
    most, least = int(words.max()), int(words.min())
    for word in range(most):
        yield word, slice(None) if word < least else np.nonzero(words > word)[0]


def _parts(
    columns: Columns, numbers: Ints, batches: Sequence[StoredBatch]
) -> tuple[dict[int, bytes], dict[int, int]]:
    """By batch: the records with these numbers joined, and the newest of their timestamps."""
    if not len(numbers):
        return {}, {}
    of_batch = columns.batch[numbers]
    changes = np.ones(len(numbers), np.bool_)
    changes[1:] = of_batch[1:] != of_batch[:-1]
    breaks = changes.copy()
    breaks[1:] |= np.diff(numbers) != 1
    ends = np.ones(len(numbers), np.bool_)
    ends[:-1] = breaks[1:]
    pieces: dict[int, list[bytes]] = {}
    data = columns.data
    for number, start, end in zip(
        of_batch[breaks].tolist(),
        columns.start[numbers[breaks]].tolist(),
        columns.end[numbers[ends]].tolist(),
        strict=True,
    ):
        pieces.setdefault(number, []).append(data[start:end])
    deltas = np.maximum.reduceat(columns.timestamp_delta[numbers], np.nonzero(changes)[0])
    newest_ms = {
        number: batches[number].header.base_timestamp_ms + delta
        for number, delta in zip(of_batch[changes].tolist(), deltas.tolist(), strict=True)
    }
    return {number: b"".join(parts) for number, parts in pieces.items()}, newest_ms
