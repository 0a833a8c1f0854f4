"""Reads a segment from its first byte, checks every batch and stops at the first that is not sound.

The checksum covers a batch but for its base offset, length, leader epoch and magic. A wrong length or magic shows
itself in the checksum of what follows from it; offset and epoch are held against their neighbours:

- an offset below the one expected next is damage; whose, is told by the batch before: if that one left a gap
  before itself, its offset was raised and it goes, else this one goes;
- a gap is damage when nothing that follows agrees with it, unless the log is compacted, where gaps are ordinary;
- an epoch below the one before is damage, to whichever of the two disagrees with the other neighbours;
- an epoch that contradicts the leader-epoch checkpoint is damage. A new epoch is written there before its first
  batch, so only a crash of the machine can make the checkpoint lack the newest epochs: one that is newer than
  all in it is believed when two batches have it.

The scan reads a few megabytes at a time and hands slices of that buffer to the checksum: nothing is copied. It
builds both indexes on the way, since whoever scans needs them anew anyway, and notes where each producer's newest
batches are, so that nobody has to read the segment once more for them.

Most batches follow the one before as expected. `_Scanner._usual` takes those in, with all the checks in one condition
and everything that it counts in local variables; the first that is not as expected, for whatever reason, it leaves to
`_Scanner._one`, which finds out what is the matter with it. That is worth a third of the time.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from odradek.foundation.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCER_IDS_PER_PARTITION_MAX
from odradek.log.epochs import EpochEntry
from odradek.log.files import DiskFile
from odradek.log.headers import LEGACY_ENTRY_BYTES_MIN, header_at
from odradek.records.batch import (
    CONTROL_FLAG,
    CRC_RANGE_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from odradek.records.checksum import crc32c

# Indexes hold offsets relative to their segment's base in 32 bits.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
# Base offset, length, epoch and magic together, CRC, attributes, last offset delta, newest timestamp, producer id.
_USUAL: Final = struct.Struct(">qi5sIhi8xqq")
_EPOCH_AND_MAGIC: Final = struct.Struct(">ib")
_TRANSACTION_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_BODY_BYTES_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
_LEGACY_BODY_BYTES_MIN: Final = LEGACY_ENTRY_BYTES_MIN - LOG_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRules:
    """What a sound segment looks like."""

    base_offset: int
    index_interval_bytes: int
    gaps_allowed: bool = False
    """Offsets may be missing anywhere, since the log is or was compacted."""
    next_base_offset: int | None = None
    """Where the segment after this one begins; None for the last."""
    epochs: tuple[EpochEntry, ...] = ()
    """What the leader-epoch checkpoint knows; nothing is held against it when it is empty."""


@dataclass(slots=True)
class Scan:
    """What a segment holds up to its first unsound batch."""

    next_offset: int
    last_epoch: int
    valid_bytes: int = 0
    max_timestamp_ms: int = -1
    max_timestamp_offset: int = 0
    bytes_since_index_entry: int = 0
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, first offset) of each epoch that begins here."""
    index_keys: list[int] = field(default_factory=list)
    index_values: list[int] = field(default_factory=list)
    time_keys: list[int] = field(default_factory=list)
    time_values: list[int] = field(default_factory=list)
    producer_tails: dict[int, deque[int]] | None = field(default_factory=dict)
    """Positions of each producer's newest batches, one more than are remembered since the scan may take back its
    last; None when transactions or too many producers ask for all batches to be looked at in order."""
    problem: str | None = None
    """Why the scan stopped before the end of the file; None when it did not."""


class _Doubt:
    """A batch whose offset left a gap or whose epoch rose, until the next one agrees; and the way back."""

    __slots__ = ("_lengths", "before", "header", "is_gap", "is_rise")

    def __init__(self, result: Scan, header: BatchHeader, *, is_gap: bool, is_rise: bool) -> None:
        self.header = header
        self.is_gap = is_gap
        self.is_rise = is_rise
        self._lengths = (len(result.epoch_starts), len(result.index_keys), len(result.time_keys))
        self.before = replace(result)

    def undo(self, result: Scan, problem: str) -> None:
        """Put everything back to what it was before the batch, which is the one that is not sound."""
        for name in _SCALARS:
            setattr(result, name, getattr(self.before, name))
        epochs, indexed, timed = self._lengths
        del result.epoch_starts[epochs:]
        del result.index_keys[indexed:], result.index_values[indexed:]
        del result.time_keys[timed:], result.time_values[timed:]
        result.problem = problem


_SCALARS: Final = (
    "next_offset",
    "last_epoch",
    "valid_bytes",
    "max_timestamp_ms",
    "max_timestamp_offset",
    "bytes_since_index_entry",
)


class _Scanner:
    def __init__(self, rules: ScanRules) -> None:
        self.rules = rules
        self.result = Scan(
            next_offset=rules.base_offset, last_epoch=-1, max_timestamp_offset=rules.base_offset
        )
        self._doubt: _Doubt | None = None
        last_possible = rules.base_offset + RELATIVE_OFFSET_MAX + 1
        self._epoch_numbers = [entry.epoch for entry in rules.epochs]
        self._epoch_offsets = [entry.start_offset for entry in rules.epochs]
        # Where a batch has to be weighed even if it looks like the one before: at the first and where epochs begin.
        self._weigh_at = rules.base_offset
        self._offset_limit = min(last_possible, rules.next_base_offset or last_possible)

    def chunk(self, view: memoryview, file_position: int, file_bytes: int) -> tuple[int, int]:
        """Take in the batches that lie whole in `view`, which begins at `file_position`.

        Answers how many bytes they were and, when the next one does not fit the view, how long it is, else 0.
        Sets `result.problem` when a batch is not sound.
        """
        place, filled = 0, len(view)
        while filled - place >= HEADER_BYTES:
            place = self._usual(view, place)
            if filled - place < HEADER_BYTES:
                break
            taken, wanted = self._one(view, place, file_position, file_bytes)
            if not taken:
                return place, wanted
            place += taken
        return place, 0

    def _usual(self, view: memoryview, place: int) -> int:
        """Take in batches from `place` on as long as they are sound and as expected; where the first begins that is
        not, or is not all there. This is where recovery spends its time.
        """
        result = self.result
        if self._doubt is not None or result.last_epoch < 0:
            return place
        unpack = _USUAL.unpack_from
        filled = len(view)
        last_place = filled - HEADER_BYTES
        epoch_and_magic = _EPOCH_AND_MAGIC.pack(result.last_epoch, 2)
        offset_stop = min(self._weigh_at, self._offset_limit)
        interval = self.rules.index_interval_bytes
        segment_base = self.rules.base_offset
        next_offset = result.next_offset
        newest_ms = result.max_timestamp_ms
        since_entry = result.bytes_since_index_entry
        tails = result.producer_tails
        # From a place in the view to a position in the file.
        shift = result.valid_bytes - place
        while place <= last_place:
            base_offset, length, found, checksum, attributes, delta, timestamp_ms, producer_id = unpack(
                view, place
            )
            end = place + LOG_OVERHEAD_BYTES + length
            if (
                base_offset != next_offset
                or found != epoch_and_magic
                or length < _BODY_BYTES_MIN
                or end > filled
                or delta < 0
                or base_offset + delta >= offset_stop
                or timestamp_ms > newest_ms
                or crc32c(view[place + CRC_RANGE_POSITION : end]) != checksum
            ):
                break
            if producer_id >= 0 and tails is not None:
                tail = tails.get(producer_id)
                if tail is None or attributes & _TRANSACTION_FLAGS:
                    break
                tail.append(place + shift)
            if since_entry > interval:
                result.index_keys.append(base_offset + delta - segment_base)
                result.index_values.append(place + shift)
                self.note_time()
                since_entry = 0
            since_entry += end - place
            next_offset = base_offset + delta + 1
            place = end
        result.next_offset = next_offset
        result.bytes_since_index_entry = since_entry
        result.valid_bytes = place + shift
        return place

    def _one(self, view: memoryview, place: int, file_position: int, file_bytes: int) -> tuple[int, int]:
        """Take in the batch at `place`, whatever is special about it, or say what is wrong with it.

        Answers its size and 0; 0 and its size when it does not fit the view; twice 0 when it is not sound.
        """
        result = self.result
        header = _HEADER.unpack_from(view, place)
        (
            base_offset,
            length,
            epoch,
            magic,
            checksum,
            attributes,
            delta,
            _,
            timestamp_ms,
            producer_id,
            _,
            _,
            _,
        ) = header
        if magic != 2 or length < _BODY_BYTES_MIN:
            return self._other(view, place, file_position, file_bytes)
        size = LOG_OVERHEAD_BYTES + length
        end = place + size
        if end > len(view):
            if file_position + end > file_bytes:
                result.problem = f"a batch of {size} bytes reaches behind the end of the file"
            return 0, size
        if crc32c(view[place + CRC_RANGE_POSITION : end]) != checksum:
            result.problem = "a batch's checksum is wrong"
            return 0, 0
        if (
            base_offset != result.next_offset
            or epoch != result.last_epoch
            or base_offset >= self._weigh_at
            or self._doubt is not None
        ) and not self._weigh(BatchHeader._make(header)):
            return 0, 0
        last_offset = base_offset + delta
        if last_offset >= self._offset_limit or delta < 0:
            self.stop(f"a batch ends at offset {last_offset}, which is not this segment's")
            return 0, 0
        if producer_id >= 0:
            self._note_producer(producer_id, attributes)
        self._count(timestamp_ms, last_offset)
        result.bytes_since_index_entry += size
        result.valid_bytes += size
        result.next_offset = last_offset + 1
        return size, 0

    def _note_producer(self, producer_id: int, attributes: int) -> None:
        result = self.result
        tails = result.producer_tails
        if tails is None:
            return
        if attributes & _TRANSACTION_FLAGS or len(tails) >= PRODUCER_IDS_PER_PARTITION_MAX:
            result.producer_tails = None
            return
        tail = tails.get(producer_id)
        if tail is None:
            tail = tails[producer_id] = deque(maxlen=PRODUCER_BATCHES_REMEMBERED + 1)
        tail.append(result.valid_bytes)

    def _count(self, timestamp_ms: int, last_offset: int) -> None:
        """Note a newest timestamp, and an index entry when one is due."""
        result = self.result
        if timestamp_ms > result.max_timestamp_ms:
            result.max_timestamp_ms = timestamp_ms
            result.max_timestamp_offset = last_offset
        if result.bytes_since_index_entry > self.rules.index_interval_bytes:
            result.index_keys.append(last_offset - self.rules.base_offset)
            result.index_values.append(result.valid_bytes)
            self.note_time()
            result.bytes_since_index_entry = 0

    def note_time(self) -> None:
        """Index the newest timestamp so far."""
        result = self.result
        if result.max_timestamp_ms > (result.time_keys[-1] if result.time_keys else -1):
            result.time_keys.append(result.max_timestamp_ms)
            result.time_values.append(result.max_timestamp_offset - self.rules.base_offset)

    def _weigh(self, header: BatchHeader) -> bool:
        """Hold offset and epoch against what came before; false when the scan is over."""
        result = self.result
        doubt = self._doubt
        base_offset, epoch = header[0], header[2]
        problem = None
        if base_offset < result.next_offset:
            problem = f"offset {base_offset} follows offset {result.next_offset - 1}"
            undo = doubt is not None and doubt.is_gap and base_offset >= doubt.before.next_offset
        elif epoch < result.last_epoch:
            problem = f"leader epoch {epoch} follows leader epoch {result.last_epoch}"
            undo = doubt is not None and doubt.is_rise and epoch >= doubt.before.last_epoch
        known = self._known_epoch(base_offset)
        if problem is not None:
            if undo and doubt is not None:
                self._doubt = None
                doubt.undo(result, problem)
            else:
                self.stop(problem)
            return False
        if known is not None and (epoch < known or (epoch > known and self._weigh_at < self._offset_limit)):
            self.stop(f"leader epoch {epoch} at offset {base_offset} is {known} in the checkpoint")
            return False
        self._doubt = None
        is_gap = base_offset > result.next_offset
        is_rise = epoch > result.last_epoch and epoch != known
        if is_gap or is_rise:
            self._doubt = _Doubt(result, header, is_gap=is_gap, is_rise=is_rise)
        if epoch > result.last_epoch:
            result.epoch_starts.append((epoch, base_offset))
            result.last_epoch = epoch
        return True

    def _known_epoch(self, offset: int) -> int | None:
        """What the checkpoint says; None for offsets before its first entry. Sets where it says something new.

        After its last entry it may know less than the log, never more: `_weigh_at` is the limit then.
        """
        place = bisect_right(self._epoch_offsets, offset)
        is_last = place == len(self._epoch_offsets)
        self._weigh_at = self._offset_limit if is_last else self._epoch_offsets[place]
        return self._epoch_numbers[place - 1] if place else None

    def stop(self, problem: str | None) -> None:
        """The scan ends before a batch that is not sound, or at the end of the file: decide on a doubtful one."""
        doubt, self._doubt = self._doubt, None
        self.result.problem = problem
        if doubt is None:
            return
        agrees = problem is None and self.result.next_offset == self.rules.next_base_offset
        epoch = doubt.header[2]
        if doubt.is_rise and self._epoch_numbers and epoch > self._epoch_numbers[-1]:
            doubt.undo(self.result, f"leader epoch {epoch} of a last batch is above all in the checkpoint")
        elif doubt.is_gap and not self.rules.gaps_allowed and not agrees:
            doubt.undo(self.result, f"offset {doubt.header[0]} leaves a gap that nothing after it confirms")

    def _other(self, view: memoryview, place: int, file_position: int, file_bytes: int) -> tuple[int, int]:
        """As `_one` for a message set of magic 0 or 1."""
        result = self.result
        header = header_at(view, place)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        end = place + size
        if header.magic not in (0, 1) or header.batch_length < _LEGACY_BODY_BYTES_MIN:
            result.problem = f"a batch claims magic {header.magic} and a length of {size} bytes"
        elif file_position + end > file_bytes:
            result.problem = f"a message of {size} bytes reaches behind the end of the file"
        elif end > len(view):
            return 0, size
        elif zlib.crc32(view[place + MAGIC_POSITION : end]) != header.crc:
            result.problem = "a message's checksum is wrong"
        elif not result.next_offset <= header.base_offset < self._offset_limit:
            result.problem = f"offset {header.base_offset} follows offset {result.next_offset - 1}"
        else:
            # These formats come from compacted or converted logs too: their offsets are taken as they rise.
            self._count(header.max_timestamp_ms, header.base_offset)
            result.bytes_since_index_entry += size
            result.valid_bytes += size
            result.next_offset = header.base_offset + 1
            return size, 0
        return 0, 0


def scan(file: DiskFile, size_bytes: int, rules: ScanRules) -> Scan:
    """Check the first `size_bytes` of a segment's log file. Raises OSError when the disk fails."""
    scanner = _Scanner(rules)
    result = scanner.result
    buffer = bytearray(min(_CHUNK_BYTES, max(size_bytes, HEADER_BYTES)))
    position = 0
    while position < size_bytes and result.problem is None:
        filled = file.read_into(position, memoryview(buffer)[: size_bytes - position])
        taken, wanted = scanner.chunk(memoryview(buffer)[:filled], position, size_bytes)
        position += taken
        if not taken and result.problem is None:
            if wanted > len(buffer):
                buffer = bytearray(wanted)
                continue
            taken = _last_legacy(scanner, memoryview(buffer)[:filled], position, size_bytes)
            position += taken
            if not taken and result.problem is None:
                result.problem = f"{size_bytes - position} bytes are too few for a batch"
    scanner.stop(result.problem)
    if (
        result.problem is None
        and rules.next_base_offset is not None
        and result.next_offset != rules.next_base_offset
        and not rules.gaps_allowed
    ):
        result.problem = (
            f"the segment ends at offset {result.next_offset}, the next begins at {rules.next_base_offset}"
        )
    scanner.note_time()
    return result


def _last_legacy(scanner: _Scanner, view: memoryview, position: int, size_bytes: int) -> int:
    # A last message of magic 0 or 1 may be shorter than the header of magic 2, which the loop waits for.
    if LEGACY_ENTRY_BYTES_MIN <= len(view) < HEADER_BYTES and view[MAGIC_POSITION] < 2:
        return scanner._other(view, 0, position, size_bytes)[0]
    return 0
