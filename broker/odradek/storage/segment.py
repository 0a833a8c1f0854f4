"""One segment: a log file named by its first offset, with its two indexes.

Opening a segment touches no file. Its size comes from the directory's listing, and the log file opens with the first
read. The newest timestamp is looked up when it is asked for. So a broker with a thousand partitions starts without a
scan. `recovery` finds out whether the batches are undamaged; the log's appender decides what is added.

One thread writes. Another one, a cleaner, may read closed segments at the same time. Before they are truncated or
replaced, it is stopped.
"""

from __future__ import annotations

import logging
import struct
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import NO_TIMESTAMP_MS
from odradek.foundation.limits import READ_POSITIONS_REMEMBERED_MAX
from odradek.storage.files import Disk, DiskFile, FileSlice
from odradek.storage.headers import LEGACY_ENTRY_BYTES_MIN, header_at, headers
from odradek.storage.index import IndexDamagedError, OffsetIndex, TimeIndex
from odradek.storage.open_files import OpenFiles
from odradek.storage.scan import Scan
from odradek.storage.transaction_index import TransactionIndex
from odradek.wire.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES

logger = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Enough for a batch's header after every batch that can lie between two index entries.
_SEARCH_BYTES: Final = 8192
# What Kafka's index.interval.bytes is by default; the density of a rebuilt time index.
_TIME_INDEX_INTERVAL_BYTES: Final = 4096
_FRAMING: Final = struct.Struct(">qi4xb6xi")


class Segment:
    """A log file and its indexes. Only the last segment of a log is written, by its appender."""

    __slots__ = (
        "_disk",
        "_file",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_open_files",
        "_read_positions",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "first_timestamp_ms",
        "is_closed",
        "jitter_ms",
        "modified_ms",
        "offset_index",
        "path",
        "size_bytes",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: str,
        disk: Disk,
        open_files: OpenFiles,
        base_offset: int,
        *,
        now_ms: int,
        size_bytes: int = 0,
        index_bytes: int = 0,
        time_index_bytes: int = 0,
        has_transaction_index: bool = False,
        jitter_ms: int = 0,
        modified_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """The sizes are the files' as listed; a new segment has none. `suffix` follows each file's own."""
        self.base_offset = base_offset
        # The files' common name, without a suffix.
        self.path = f"{directory}/{base_offset:020d}"
        self.suffix = suffix
        self.size_bytes = size_bytes
        self.created_ms = now_ms
        self.modified_ms = modified_ms or now_ms
        self.jitter_ms = jitter_ms
        # The first batch's newest timestamp, from which segment.ms counts; None until it is looked up.
        self.first_timestamp_ms: int | None = None
        self.bytes_since_index_entry = 0
        # Whether it is no longer the one that is appended to: only so many of those keep their files open.
        self.is_closed = False
        self.offset_index = OffsetIndex(
            self.path + INDEX_SUFFIX + suffix, disk=disk, base_offset=base_offset, size_bytes=index_bytes
        )
        self.time_index = TimeIndex(
            self.path + TIME_INDEX_SUFFIX + suffix,
            disk=disk,
            base_offset=base_offset,
            size_bytes=time_index_bytes,
        )
        self.transaction_index = TransactionIndex(
            self.path + TRANSACTION_INDEX_SUFFIX + suffix, disk=disk, has_file=has_transaction_index
        )
        self._disk = disk
        self._open_files = open_files
        self._file: DiskFile | None = None
        # None: not looked up yet. The newest timestamp and the last offset of the first batch that has it.
        self._max_timestamp_ms: int | None = None if size_bytes else NO_TIMESTAMP_MS
        self._max_timestamp_offset = base_offset
        # Offset to its batch's position, oldest first, for offsets that readers are likely to ask for.
        self._read_positions: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size_bytes} bytes)"

    # --- files -----------------------------------------------------------------------------------------------------

    @property
    def file(self) -> DiskFile:
        """The log file, opened when needed. Raises OSError."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path + LOG_SUFFIX + self.suffix)
            if self.is_closed:
                self._open_files.add(self)
        return file

    def close_to_appends(self) -> None:
        """The segment is no longer its log's last one."""
        self.is_closed = True
        if self._file is not None:
            self._open_files.add(self)

    def open_to_appends(self) -> None:
        """The segment is its log's last one, since a truncation took those after it."""
        self.is_closed = False
        self._open_files.discard(self)

    def create(self) -> None:
        """Make the log file of a new segment, in place of a leftover of that name. Raises OSError."""
        file = self._disk.open(self.path + LOG_SUFFIX + self.suffix, create=True)
        if file.size:
            file.truncate(0)
        self._file = file

    def release(self) -> None:
        """Drop the open files, which open again when needed; slices that are being sent keep the log file open."""
        self._open_files.discard(self)
        self._file = None
        self.offset_index.close()
        self.time_index.close()

    def move_to(self, directory: str) -> None:
        """The same files are in `directory` from now on."""
        self.release()
        self.path = path = f"{directory}/{self.base_offset:020d}"
        self.offset_index.path = path + INDEX_SUFFIX + self.suffix
        self.time_index.path = path + TIME_INDEX_SUFFIX + self.suffix
        self.transaction_index.path = path + TRANSACTION_INDEX_SUFFIX + self.suffix

    def write_indexes(self, *, final: bool) -> None:
        """Write the indexes to their files; `final` adds the newest timestamp, as a closed segment has it."""
        if final and self.size_bytes:
            self._note_time(*self.max_timestamp())
        self.offset_index.write()
        self.time_index.write()

    # --- append ----------------------------------------------------------------------------------------------------

    def note_batch(
        self,
        position: int,
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Count a batch that was just written at `position`, and index it when an entry is due."""
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        self.size_bytes = position + size_bytes
        newest_ms = self._max_timestamp_ms
        assert newest_ms is not None, "looked up before the batch was written"
        if max_timestamp_ms > newest_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > index_interval_bytes:
            self.bytes_since_index_entry = size_bytes
            self.offset_index.append(last_offset - self.base_offset, position)
            self._note_time(*self.max_timestamp())
        else:
            self.bytes_since_index_entry += size_bytes

    def _note_time(self, timestamp_ms: int, offset: int) -> None:
        last = self.time_index.last()
        if timestamp_ms > (NO_TIMESTAMP_MS if last is None else last[0]):
            self.time_index.append(timestamp_ms, offset - self.base_offset)

    # --- timestamps ------------------------------------------------------------------------------------------------

    def max_timestamp(self) -> tuple[int, int]:
        """The newest timestamp, -1 for none, and the last offset of the first batch that has it. Raises OSError."""
        if self._max_timestamp_ms is None:
            self._load_max_timestamp()
            assert self._max_timestamp_ms is not None
        return self._max_timestamp_ms, self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        try:
            last = self.time_index.last()
        except IndexDamagedError:
            last = None
        if last is not None and self._has_time(last[0], last[1] + self.base_offset):
            self.set_max_timestamp(last[0], last[1] + self.base_offset)
        else:
            self._rebuild_time_index()

    def offset_before(self, timestamp_ms: int) -> int:
        """An offset at or before the first record of `timestamp_ms` or later. Raises OSError."""
        try:
            found = self.time_index.entry_before(timestamp_ms)
            if found is not None and not self._has_time(*found):
                self._rebuild_time_index()
                found = self.time_index.entry_before(timestamp_ms)
        except IndexDamagedError:
            # From the first record on is always right.
            found = None
        return self.base_offset if found is None else found[1]

    def _has_time(self, timestamp_ms: int, offset: int) -> bool:
        """Whether an entry of the time index is true: the batch that holds `offset` has this newest timestamp."""
        try:
            position = self.position_of(offset)
        except (IndexDamagedError, CorruptRecord):
            return False
        if not 0 <= position < self.size_bytes:
            return False
        data = self.file.pread(position, min(HEADER_BYTES, self.size_bytes - position))
        header = header_at(data, 0)
        return header.max_timestamp_ms == timestamp_ms and header.base_offset <= offset

    def _rebuild_time_index(self) -> None:
        """From the batches' headers alone, which is enough for times."""
        logger.warning("%s has no entry that its log agrees with: it is rebuilt", self.time_index.path)
        entries: list[tuple[int, int]] = []
        newest_ms, newest_offset = NO_TIMESTAMP_MS, self.base_offset
        indexed_ms = -1
        entry_position = 0
        try:
            for position, header in headers(self.file, 0, self.size_bytes):
                if header.max_timestamp_ms > newest_ms:
                    newest_ms, newest_offset = header.max_timestamp_ms, header.last_offset
                if position - entry_position > _TIME_INDEX_INTERVAL_BYTES and newest_ms > indexed_ms:
                    entries.append((newest_ms, newest_offset - self.base_offset))
                    indexed_ms = newest_ms
                    entry_position = position
        except CorruptRecord as error:
            logger.error("%s.log is damaged in a part that was synced: %s", self.path, error)
        if newest_ms > indexed_ms:
            entries.append((newest_ms, newest_offset - self.base_offset))
        self.set_max_timestamp(newest_ms, newest_offset)
        self.time_index.replace(entries)

    def apply_scan(self, found: Scan) -> None:
        """Set size, times and indexes to what a scan found, which ended where the file ends. Raises OSError."""
        self.size_bytes = found.valid_bytes
        self.first_timestamp_ms = None
        self.bytes_since_index_entry = found.bytes_since_index_entry
        self._read_positions = {}
        self.set_max_timestamp(found.max_timestamp_ms, found.max_timestamp_offset)
        self.offset_index.replace(found.offset_entries)
        self.time_index.replace(found.time_entries)

    def set_max_timestamp(self, timestamp_ms: int, offset: int) -> None:
        """Set the newest timestamp and its offset to those that a scan found."""
        self._max_timestamp_ms = timestamp_ms
        self._max_timestamp_offset = offset

    def retention_timestamp_ms(self) -> int:
        """The time by which the segment ages: its newest record's, or the file's when records have none."""
        newest_ms = self.max_timestamp()[0]
        return newest_ms if newest_ms >= 0 else self.modified_ms

    def roll_timestamp_ms(self) -> int:
        """The first batch's timestamp, -1 when there is none: segment.ms counts from it."""
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = NO_TIMESTAMP_MS
            if self.size_bytes:
                data = self.file.pread(0, min(HEADER_BYTES, self.size_bytes))
                self.first_timestamp_ms = header_at(data, 0).max_timestamp_ms
            if not self.is_closed:
                # An append looks up no more once the first time is known, and needs both before it writes.
                self.max_timestamp()
        return self.first_timestamp_ms

    # --- positions -------------------------------------------------------------------------------------------------

    def remember_position(self, offset: int, position: int) -> None:
        """Remember that the batch of `offset` begins, or will begin, at `position`."""
        positions = self._read_positions
        if len(positions) >= READ_POSITIONS_REMEMBERED_MAX and offset not in positions:
            _forget_oldest(positions)
        positions[offset] = position

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that holds `offset` or a later one; -1 when no batch here does.

        Raises IndexDamagedError when the index names a position without such a batch, CorruptRecord when the log is
        damaged there.
        """
        # A truncation replaces the dict, so that a reader on another thread cannot add a position of before.
        positions = self._read_positions
        position = positions.get(offset)
        if position is not None:
            return position
        indexed_offset, start = self.offset_index.position_before(offset)
        position = self._search(start, offset, indexed_offset)
        if position >= 0:
            if len(positions) >= READ_POSITIONS_REMEMBERED_MAX:
                _forget_oldest(positions)
            positions[offset] = position
        return position

    def _search(self, position: int, offset: int, indexed_offset: int) -> int:
        end = self.size_bytes
        if position >= end and position:
            raise IndexDamagedError(f"{self.offset_index.path} points behind the end of its log")
        file = self.file
        chunk = b""
        chunk_position = position
        while position < end:
            in_chunk = position - chunk_position
            if len(chunk) - in_chunk < _FRAMING.size:
                # Zeros behind a last message of an old format, which may be a byte shorter than what is unpacked.
                chunk = file.pread(position, min(_SEARCH_BYTES, end - position)) + b"\0"
                chunk_position = position
                in_chunk = 0
                if len(chunk) < _FRAMING.size:
                    raise self._damage(position, indexed_offset)
            base_offset, length, magic, delta = _FRAMING.unpack_from(chunk, in_chunk)
            last_offset = base_offset + delta if magic >= 2 else base_offset
            size = length + LOG_OVERHEAD_BYTES
            if (
                size < LEGACY_ENTRY_BYTES_MIN
                or position + size > end
                or (indexed_offset >= 0 and last_offset != indexed_offset)
            ):
                raise self._damage(position, indexed_offset)
            if last_offset >= offset:
                return position
            indexed_offset = -1
            position += size
        return -1

    def _damage(self, position: int, indexed_offset: int) -> Exception:
        if indexed_offset >= 0:
            return IndexDamagedError(
                f"{self.offset_index.path} has no batch ending at {indexed_offset} where it says: {position}"
            )
        return CorruptRecord(f"{self.path}{LOG_SUFFIX} holds no whole batch at position {position}")

    def batch_size_at(self, position: int) -> int:
        """Bytes of the batch at `position`."""
        data = self.file.pread(position, LOG_OVERHEAD_BYTES)
        if len(data) < LOG_OVERHEAD_BYTES:
            raise self._damage(position, -1)
        return int.from_bytes(data[8:], "big", signed=True) + LOG_OVERHEAD_BYTES

    def slice(self, position: int, size: int) -> FileSlice:
        """A range of the log file."""
        return FileSlice(self.file, position, size)

    def next_offset(self) -> int:
        """The offset after the last one here; reads what follows the last index entry.

        Raises IndexDamagedError or CorruptRecord when the index or the end of the log is damaged.
        """
        if not self.size_bytes:
            return self.base_offset
        last = self.offset_index.last()
        position = last[1] if last is not None else 0
        if position >= self.size_bytes or (last is not None and min(last) <= 0):
            raise IndexDamagedError(f"{self.offset_index.path} does not fit a log of {self.size_bytes} bytes")
        next_offset = self.base_offset
        for at, header in headers(self.file, position, self.size_bytes):
            next_offset = header.last_offset + 1
            self.bytes_since_index_entry = self.size_bytes - position
            if last is not None and at == position and next_offset != last[0] + self.base_offset + 1:
                raise IndexDamagedError(
                    f"{self.offset_index.path} has a last entry that its log does not have"
                )
        return next_offset

    # --- truncate --------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; how many bytes. Raises OSError."""
        position = self.position_of(offset)
        if not 0 <= position < self.size_bytes:
            return 0
        removed = self.size_bytes - position
        # The indexes first: entries without their log would be wrong, a log without its entries is only slower.
        self.offset_index.truncate(offset - self.base_offset)
        self.time_index.truncate_offsets(offset)
        self.transaction_index.truncate(offset)
        self._truncate_at(position)
        return removed

    def _truncate_at(self, position: int) -> None:
        self.file.truncate(position)
        self.size_bytes = position
        self.bytes_since_index_entry = 0
        self._read_positions = {}
        self._max_timestamp_ms = None if position else NO_TIMESTAMP_MS
        if not position:
            self.first_timestamp_ms = None
            return
        # The time index knows the newest time up to the last index entry; the batches after it say the rest.
        newest_ms, newest_offset = self.max_timestamp()
        last = self.offset_index.last()
        start = 0 if last is None else last[1]
        for _, header in headers(self.file, start, position):
            if header.max_timestamp_ms > newest_ms:
                newest_ms, newest_offset = header.max_timestamp_ms, header.last_offset
        self.set_max_timestamp(newest_ms, newest_offset)
        self.bytes_since_index_entry = position - start


def _forget_oldest(positions: dict[int, int]) -> None:
    while len(positions) >= READ_POSITIONS_REMEMBERED_MAX:
        try:
            del positions[next(iter(positions))]
        except (KeyError, RuntimeError):
            continue  # Another thread changed the dict between two of these steps.
