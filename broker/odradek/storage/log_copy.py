"""A copy of one log in another directory, made while the log is written, read, compacted and truncated (KIP-113).

Closed segments are copied first, with their indexes. They are on the device when their last piece ends. Then the
growing part of the active one is copied until little is left. `finish` copies that in one turn of the event loop.

`LogCopy` decides on the log's own thread what is next. A `Piece` copies it on any thread, and touches nothing else.
What compaction, retention or a truncation changes during the copy is copied again, or removed from it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.limits import LOG_COPY_PIECE_BYTES, LOG_COPY_REMAINDER_BYTES_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.disk_space import error_text
from odradek.storage.epochs import FILE_NAME as EPOCHS_FILE
from odradek.storage.files import Disk, DiskFile
from odradek.storage.log import Log
from odradek.storage.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment

COPY_FILE: Final = "odradek-copy"
"""In the copy's directory, and in the log's until its old directory is gone."""


class Piece(NamedTuple):
    """The next bytes of one segment, from `position` to `end` of its log file."""

    segment: Segment
    file: DiskFile
    source: str
    target: str
    """The files' common names, without a suffix."""
    position: int
    end: int
    is_synced: bool
    """Whether all of the copy's segment reaches the device with this piece."""
    with_indexes: bool
    generation: int
    removed: tuple[str, ...]
    """Names in the copy, without a suffix, whose segments the log has no more."""
    disk: Disk

    @property
    def size_bytes(self) -> int:
        return self.end - self.position

    def run(self) -> None:
        """Copy it, on any thread. Raises OSError, and KafkaStorageError where the log itself cannot be read."""
        for path in self.removed:
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
                self.disk.remove(path + suffix)
        target = self.disk.open(self.target + LOG_SUFFIX, create=True)
        if target.size > self.position:
            target.truncate(self.position)
        if self.size_bytes:
            target.append(_read(self.file, self.position, self.end))
        if self.with_indexes:
            _copy_small_files(self.disk, self.source, self.target, is_synced=True)
        if self.is_synced:
            target.sync()
            self.disk.sync_directory(self.target.rpartition("/")[0])


class LogCopy:
    """Belongs to the thread that changes the log."""

    def __init__(self, log: Log, directory: str, *, disk: Disk) -> None:
        """`directory` is the copy's own, in another log directory."""
        self.log = log
        self.directory = directory
        self.is_cancelled = False
        """Whether the copy is wanted no more: its owner removes it."""
        self._disk = disk
        # Bytes of the log files that the copy has.
        self._copied: dict[Segment, int] = {}
        # The first offsets of the segments of which files may be in the copy, also by a piece that did not count.
        self._begun: set[int] = set()
        # Those of which all files are copied, and on the device.
        self._complete: set[Segment] = set()
        # The segment that was the active one at the last piece of such, and how much of its copy is on the device.
        self._synced: tuple[Segment | None, int] = None, 0
        # Counted up with each truncation, which makes pieces that are under way worthless.
        self._generation = 0

    @property
    def parent_directory(self) -> str:
        """The log directory that the log moves to."""
        return self.directory.rpartition("/")[0] or "."

    @property
    def size_bytes(self) -> int:
        """The bytes of the copy's log files."""
        return sum(self._copied.values())

    @property
    def lag_offsets(self) -> int:
        """From the end of what is copied to the log's end, in whole segments; the active one counts by its bytes."""
        segments = self.log.segments.all
        first = next((one for one in segments if one not in self._complete), segments[-1])
        if first is segments[-1] and self._copied.get(first, 0) >= first.size_bytes:
            return 0
        return self.log.log_end_offset - max(first.base_offset, self.log.log_start_offset)

    def next_piece(self) -> Piece | None:
        """What is to be copied next; None when `finish` may be called. Raises OSError, KafkaStorageError."""
        segments = self.log.segments.all
        removed = self._drop_removed(segments)
        for segment in segments[:-1]:
            if segment not in self._complete:
                return self._piece(segment, removed, is_closed=True)
        active = segments[-1]
        missing = active.size_bytes - self._copied.get(active, 0)
        if removed or missing > LOG_COPY_REMAINDER_BYTES_MAX or self._is_unsynced(active):
            return self._piece(active, removed, is_closed=False)
        if active.offset_index.size_bytes + active.time_index.size_bytes > LOG_COPY_REMAINDER_BYTES_MAX:
            # So that its indexes are copied in a thread, too.
            self.log.roll()
            return self.next_piece()
        return None

    def _is_unsynced(self, active: Segment) -> bool:
        segment, synced = self._synced
        return segment is not active or synced < self._copied.get(active, 0)

    def _piece(self, segment: Segment, removed: tuple[str, ...], *, is_closed: bool) -> Piece:
        position = self._copied.get(segment, 0)
        end = min(segment.size_bytes, position + LOG_COPY_PIECE_BYTES)
        self._begun.add(segment.base_offset)
        is_last = end == segment.size_bytes
        name = f"{segment.base_offset:020d}"
        return Piece(
            segment=segment,
            file=segment.file,
            source=segment.path,
            target=f"{self.directory}/{name}",
            position=position,
            end=end,
            is_synced=is_last or not is_closed,
            with_indexes=is_last and is_closed,
            generation=self._generation,
            removed=removed,
            disk=self._disk,
        )

    def end_piece(self, piece: Piece, error: KafkaStorageError | None = None) -> None:
        """The piece was copied, or could not be read. Raises the error, unless a truncation overtook the piece."""
        if piece.generation != self._generation:
            return
        if error is not None:
            raise error
        self._copied[piece.segment] = piece.end
        if piece.with_indexes:
            self._complete.add(piece.segment)
        elif piece.is_synced:
            self._synced = piece.segment, piece.end

    def forget_truncated(self) -> None:
        """The log was truncated: what its active segment had may be other records from now on."""
        self._generation += 1
        self._synced = None, 0
        active = self.log.segments.active
        self._copied.pop(active, None)
        self._complete.discard(active)

    def _drop_removed(self, segments: tuple[Segment, ...]) -> tuple[str, ...]:
        for segment in self._copied.keys() - set(segments):
            del self._copied[segment]
            self._complete.discard(segment)
        removed = self._begun - {segment.base_offset for segment in segments}
        self._begun -= removed
        return tuple(f"{self.directory}/{base_offset:020d}" for base_offset in sorted(removed))

    def finish(self, *, must_sync: bool) -> None:
        """Copy what is left: some hundred kilobytes, in one turn of the event loop. Raises OSError, KafkaStorageError.

        With `must_sync`, or where the log's recovery point is behind what the device has of the copy, it waits for the
        device once.
        """
        log, disk = self.log, self._disk
        active = log.segments.active
        active.write_indexes(final=False)
        target_path = f"{self.directory}/{active.base_offset:020d}"
        target = disk.open(target_path + LOG_SUFFIX, create=True)
        copied = self._copied.get(active, 0)
        if target.size > copied:
            target.truncate(copied)
        if active.size_bytes > copied:
            target.append(_read(active.file, copied, active.size_bytes))
        _copy_small_files(disk, active.path, target_path, is_synced=False)
        with suppress(FileNotFoundError):
            epochs = disk.read(f"{log.directory}/{EPOCHS_FILE}")
            disk.replace(f"{self.directory}/{EPOCHS_FILE}", epochs, sync=False)
        if must_sync or log.recovery_point > active.base_offset:
            target.sync()
            disk.sync_directory(self.directory)


def _read(file: DiskFile, position: int, end: int) -> bytes:
    try:
        data = file.pread(position, end - position)
    except OSError as error:
        raise KafkaStorageError(f"{file.path} cannot be read: {error_text(error)}") from error
    if len(data) != end - position:
        raise KafkaStorageError(f"{file.path} ends before byte {end}")
    return data


def _copy_small_files(disk: Disk, source: str, target: str, *, is_synced: bool) -> None:
    """The indexes of a segment, and the snapshot of producers at its first offset, where there are such files."""
    for suffix in (*SEGMENT_SUFFIXES[1:], SNAPSHOT_SUFFIX):
        try:
            data = disk.read(source + suffix)
        except FileNotFoundError:
            disk.remove(target + suffix)
            continue
        disk.replace(target + suffix, data, sync=is_synced)
