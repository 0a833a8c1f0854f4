"""Reads a segment from its first byte, checks every batch and stops at the first that is damaged.

The checksum covers a batch except for its base offset, length, leader epoch and magic. A wrong length or magic shows in
the checksum of what follows from it. Offset and epoch are compared with those of the neighbours:

- An offset below the expected one is damage. If the batch before left a gap before itself, that batch is the damaged
  one: its offset was raised. Otherwise this one is.
- A gap is damage when nothing that follows confirms it. In a compacted log gaps are ordinary.
- An epoch below the one before is damage, of the one of the two that disagrees with its other neighbour.
- An epoch that contradicts the leader-epoch checkpoint is damage. A new epoch is written there before its first
  batch, so only a crash of the machine can remove the newest epochs from the checkpoint. An epoch that is newer than
  all of them counts when two batches have it.

The scan reads a few megabytes at a time and checksums slices of that buffer: nothing is copied. It builds both indexes
on the way, since a segment that is scanned needs new ones. It also notes where each producer's newest batches are, so
that the segment is not read again for them.

Most batches follow the one before as expected. `_Scanner._read_expected` reads those, with all checks in one condition
and all counts in local variables, which saves a third of the time. It leaves the first other batch to `_Scanner._any`.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from odradek.foundation.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCER_IDS_PER_PARTITION_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.epochs import EpochEntry
from odradek.storage.files import DiskFile
from odradek.storage.headers import LEGACY_ENTRY_BYTES_MIN, header_at
from odradek.wire.records.batch import (
    CONTROL_FLAG,
    CRC_RANGE_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from odradek.wire.records.checksum import crc32c

# Indexes hold offsets relative to their segment's base in 32 bits.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
# No segment holds so many records: a longer gap is one of compaction, which a segment could not reach over.
_LOST_OFFSETS_MAX: Final = 2**30

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
# Base offset, length, epoch and magic together, CRC, attributes, last offset delta, newest timestamp, producer id.
_EXPECTED: Final = struct.Struct(">qi5sIhi8xqq")
_EPOCH_AND_MAGIC: Final = struct.Struct(">ib")
_TRANSACTION_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_BODY_BYTES_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
_LEGACY_BODY_BYTES_MIN: Final = LEGACY_ENTRY_BYTES_MIN - LOG_OVERHEAD_BYTES


class ScanRules(NamedTuple):
    """The facts by which an undamaged segment is known."""

    base_offset: int
    index_interval_bytes: int
    gaps_allowed: bool = False
    """Offsets may be missing anywhere, since the log is or was compacted."""
    next_base_offset: int | None = None
    """Where the segment after this one begins; None for the last."""
    is_end_synced: bool = True
    """Whether the segment's end is known to be on the device. If not, it has to reach `next_base_offset`: a loss of
    power may have taken its last batches, which looks like a gap that compaction left."""
    epochs: tuple[EpochEntry, ...] = ()
    """The entries of the leader-epoch checkpoint; empty: epochs are not compared with it."""


@dataclass(slots=True)
class Scan:
    """The contents of a segment up to its first damaged batch."""

    next_offset: int
    last_epoch: int
    valid_bytes: int = 0
    max_timestamp_ms: int = -1
    max_timestamp_offset: int = 0
    bytes_since_index_entry: int = 0
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, first offset) of each epoch that begins here."""
    offset_entries: list[tuple[int, int]] = field(default_factory=list)
    time_entries: list[tuple[int, int]] = field(default_factory=list)
    producer_tails: dict[int, deque[int]] | None = field(default_factory=dict)
    """Positions of each producer's newest batches: one more than are remembered, since the scan may undo its last. None
    when transactions or too many producers make it necessary to replay all batches."""
    problem: str | None = None
    """Why the scan stopped before the end of the file; None when it did not."""


class _Unconfirmed:
    """A batch whose offset left a gap or whose epoch rose, until the next one confirms it; and the state before it."""

    __slots__ = ("_lengths", "before", "header", "is_gap", "is_new_epoch")

    def __init__(self, result: Scan, header: BatchHeader, *, is_gap: bool, is_new_epoch: bool) -> None:
        self.header = header
        self.is_gap = is_gap
        self.is_new_epoch = is_new_epoch
        self._lengths = (len(result.epoch_starts), len(result.offset_entries), len(result.time_entries))
        self.before = replace(result)

    def undo(self, result: Scan, problem: str) -> None:
        """Restore everything to what it was before the batch, which is the damaged one."""
        for name in _SCALARS:
            setattr(result, name, getattr(self.before, name))
        epochs, indexed, timed = self._lengths
        del result.epoch_starts[epochs:]
        del result.offset_entries[indexed:]
        del result.time_entries[timed:]
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
        self._unconfirmed: _Unconfirmed | None = None
        last_possible = rules.base_offset + RELATIVE_OFFSET_MAX + 1
        self._epoch_numbers = [entry.epoch for entry in rules.epochs]
        self._epoch_offsets = [entry.start_offset for entry in rules.epochs]
        # The first batch, and those where epochs begin, are checked even when they look like the one before.
        self._check_order_at = rules.base_offset
        self._offset_limit = min(last_possible, rules.next_base_offset or last_possible)

    def chunk(self, view: memoryview, file_position: int, file_bytes: int) -> tuple[int, int]:
        """Read the batches that lie whole in `view`, which begins at `file_position`.

        Returns how many bytes they were and, when the next one does not fit the view, how long it is, else 0.
        Sets `result.problem` when a batch is damaged.
        """
        position, filled = 0, len(view)
        while filled - position >= HEADER_BYTES:
            position = self._read_expected(view, position)
            if filled - position < HEADER_BYTES:
                break
            taken, wanted = self._any(view, position, file_position, file_bytes)
            if not taken:
                return position, wanted
            position += taken
        return position, 0

    def _read_expected(self, view: memoryview, position: int) -> int:
        """Read batches from `position` on while they are whole and as expected; where the first other one begins.

        Recovery spends its time here.
        """
        result = self.result
        if self._unconfirmed is not None or result.last_epoch < 0:
            return position
        unpack = _EXPECTED.unpack_from
        filled = len(view)
        last_position = filled - HEADER_BYTES
        epoch_and_magic = _EPOCH_AND_MAGIC.pack(result.last_epoch, 2)
        offset_stop = min(self._check_order_at, self._offset_limit)
        interval = self.rules.index_interval_bytes
        segment_base = self.rules.base_offset
        next_offset = result.next_offset
        newest_ms = result.max_timestamp_ms
        since_entry = result.bytes_since_index_entry
        tails = result.producer_tails
        # What a position in the view lacks to be one in the file.
        shift = result.valid_bytes - position
        while position <= last_position:
            base_offset, length, found, checksum, attributes, delta, timestamp_ms, producer_id = unpack(
                view, position
            )
            end = position + LOG_OVERHEAD_BYTES + length
            if (
                base_offset != next_offset
                or found != epoch_and_magic
                or length < _BODY_BYTES_MIN
                or end > filled
                or delta < 0
                or base_offset + delta >= offset_stop
                or timestamp_ms > newest_ms
                or crc32c(view[position + CRC_RANGE_POSITION : end]) != checksum
            ):
                break
            if producer_id >= 0 and tails is not None:
                tail = tails.get(producer_id)
                if tail is None or attributes & _TRANSACTION_FLAGS:
                    break
                tail.append(position + shift)
            if since_entry > interval:
                result.offset_entries.append((base_offset + delta - segment_base, position + shift))
                self.note_time()
                since_entry = 0
            since_entry += end - position
            next_offset = base_offset + delta + 1
            position = end
        result.next_offset = next_offset
        result.bytes_since_index_entry = since_entry
        result.valid_bytes = position + shift
        return position

    def _any(self, view: memoryview, position: int, file_position: int, file_bytes: int) -> tuple[int, int]:
        """Read any batch at `position`, or set `result.problem`.

        Returns its size and 0; 0 and its size when it does not fit the view; twice 0 when it is damaged.
        """
        result = self.result
        header = _HEADER.unpack_from(view, position)
        base_offset, length, epoch, magic, crc, attributes, delta, _, timestamp_ms, producer_id, _, _, _ = (
            header
        )
        if magic != 2 or length < _BODY_BYTES_MIN:
            return self._legacy(view, position, file_position, file_bytes)
        size = LOG_OVERHEAD_BYTES + length
        end = position + size
        if end > len(view):
            if file_position + end > file_bytes:
                result.problem = f"a batch of {size} bytes reaches behind the end of the file"
            return 0, size
        if crc32c(view[position + CRC_RANGE_POSITION : end]) != crc:
            result.problem = "a batch's checksum is wrong"
            return 0, 0
        if (
            base_offset != result.next_offset
            or epoch != result.last_epoch
            or base_offset >= self._check_order_at
            or self._unconfirmed is not None
        ) and not self._check_order(BatchHeader._make(header)):
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
            result.offset_entries.append((last_offset - self.rules.base_offset, result.valid_bytes))
            self.note_time()
            result.bytes_since_index_entry = 0

    def note_time(self) -> None:
        """Index the newest timestamp so far."""
        result = self.result
        if result.max_timestamp_ms > (result.time_entries[-1][0] if result.time_entries else -1):
            result.time_entries.append(
                (result.max_timestamp_ms, result.max_timestamp_offset - self.rules.base_offset)
            )

    def _check_order(self, header: BatchHeader) -> bool:
        """Compare offset and epoch with those before; false when the scan is over."""
        result = self.result
        unconfirmed = self._unconfirmed
        base_offset, epoch = header.base_offset, header.leader_epoch
        problem = None
        if base_offset < result.next_offset:
            problem = f"offset {base_offset} follows offset {result.next_offset - 1}"
            undo = (
                unconfirmed is not None
                and unconfirmed.is_gap
                and base_offset >= unconfirmed.before.next_offset
            )
        elif epoch < result.last_epoch:
            problem = f"leader epoch {epoch} follows leader epoch {result.last_epoch}"
            undo = (
                unconfirmed is not None
                and unconfirmed.is_new_epoch
                and epoch >= unconfirmed.before.last_epoch
            )
        known = self._find_checkpoint_epoch(base_offset)
        if problem is not None:
            if undo and unconfirmed is not None:
                self._unconfirmed = None
                unconfirmed.undo(result, problem)
            else:
                self.stop(problem)
            return False
        if known is not None and (
            epoch < known or (epoch > known and self._check_order_at < self._offset_limit)
        ):
            self.stop(f"leader epoch {epoch} at offset {base_offset} is {known} in the checkpoint")
            return False
        self._unconfirmed = None
        is_gap = base_offset > result.next_offset
        is_new_epoch = epoch > result.last_epoch and epoch != known
        if is_gap or is_new_epoch:
            self._unconfirmed = _Unconfirmed(result, header, is_gap=is_gap, is_new_epoch=is_new_epoch)
        if epoch > result.last_epoch:
            result.epoch_starts.append((epoch, base_offset))
            result.last_epoch = epoch
        return True

    def _find_checkpoint_epoch(self, offset: int) -> int | None:
        """The checkpoint's epoch of this offset; None before its first entry. Sets where its next epoch begins.

        After its last entry the checkpoint may know less than the log, never more: `_check_order_at` is the limit then.
        """
        number = bisect_right(self._epoch_offsets, offset)
        is_last = number == len(self._epoch_offsets)
        self._check_order_at = self._offset_limit if is_last else self._epoch_offsets[number]
        return self._epoch_numbers[number - 1] if number else None

    def stop(self, problem: str | None) -> None:
        """The scan ends before a damaged batch, or at the end of the file: keep or undo an unconfirmed one."""
        unconfirmed, self._unconfirmed = self._unconfirmed, None
        self.result.problem = problem
        if unconfirmed is None:
            return
        agrees = problem is None and self.result.next_offset == self.rules.next_base_offset
        epoch = unconfirmed.header.leader_epoch
        if unconfirmed.is_new_epoch and self._epoch_numbers and epoch > self._epoch_numbers[-1]:
            unconfirmed.undo(
                self.result, f"leader epoch {epoch} of a last batch is above all in the checkpoint"
            )
        elif unconfirmed.is_gap and not self.rules.gaps_allowed and not agrees:
            unconfirmed.undo(
                self.result,
                f"offset {unconfirmed.header.base_offset} leaves a gap that nothing after it confirms",
            )

    def _legacy(
        self, view: memoryview, position: int, file_position: int, file_bytes: int
    ) -> tuple[int, int]:
        """As `_any` for a message set of magic 0 or 1."""
        result = self.result
        header = header_at(view, position)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        end = position + size
        if header.magic not in (0, 1) or header.batch_length < _LEGACY_BODY_BYTES_MIN:
            result.problem = f"a batch claims magic {header.magic} and a length of {size} bytes"
        elif file_position + end > file_bytes:
            result.problem = f"a message of {size} bytes reaches behind the end of the file"
        elif end > len(view):
            return 0, size
        elif zlib.crc32(view[position + MAGIC_POSITION : end]) != header.crc:
            result.problem = "a message's checksum is wrong"
        elif not result.next_offset <= header.base_offset < self._offset_limit:
            result.problem = f"offset {header.base_offset} follows offset {result.next_offset - 1}"
        else:
            # These formats also come from compacted or converted logs, so gaps between their offsets are no damage.
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
        and not (
            rules.gaps_allowed
            and (rules.is_end_synced or rules.next_base_offset - result.next_offset > _LOST_OFFSETS_MAX)
        )
    ):
        result.problem = (
            f"the segment ends at offset {result.next_offset}, the next begins at {rules.next_base_offset}"
        )
    scanner.note_time()
    return result


def _last_legacy(scanner: _Scanner, view: memoryview, position: int, size_bytes: int) -> int:
    # The loop waits for a header of magic 2. A last message of magic 0 or 1 may be shorter than that.
    if LEGACY_ENTRY_BYTES_MIN <= len(view) < HEADER_BYTES and view[MAGIC_POSITION] < 2:
        return scanner._legacy(view, 0, position, size_bytes)[0]
    return 0
