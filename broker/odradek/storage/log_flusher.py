"""Syncs a log to the device, in three steps so that the middle one, which waits, can run on another thread.

`LogFlusher.begin_flush` collects what has to be synced. `Flush.sync` syncs it and touches nothing else.
`LogFlusher.end_flush` moves the recovery point. `flush` does all three where waiting does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.config import LogConfig
from odradek.storage.files import Disk, DiskFile
from odradek.storage.log_parts import LogParts
from odradek.storage.producer_snapshots import snapshot_name
from odradek.storage.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX


class Flush(NamedTuple):
    """The files and names that have to reach the device so that all records below `offset` are safe."""

    offset: int
    truncations: int
    """A flush that a truncation overtook says nothing of the records that have its offsets since."""
    files: Sequence[DiskFile]
    paths: Sequence[str]
    directories: Sequence[str]
    disk: Disk

    def sync(self) -> None:
        """Wait for the device; on any thread. Raises OSError, to be handed to `LogFlusher.end_flush`."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            # These files are seldom open, so each opens here; one may be deleted by now.
            try:
                file = self.disk.open(path)
            except FileNotFoundError:
                continue
            file.sync()
        for directory in self.directories:
            with suppress(FileNotFoundError):
                self.disk.sync_directory(directory)

    def try_sync(self) -> OSError | None:
        """As `sync`; the error instead of raising it."""
        try:
            self.sync()
        except OSError as error:
            return error
        return None


class LogFlusher:
    """Knows what of one log is not on the device yet."""

    def __init__(self, parts: LogParts) -> None:
        self._segments, self._offsets, self._health = parts.segments, parts.offsets, parts.health
        self._producers, self._unsynced = parts.producers, parts.unsynced
        self._disk, self._clock = parts.disk, parts.clock
        self._flushed_at_ms = parts.clock.wall_ms()

    def is_flush_due(self, now_ms: int, config: LogConfig) -> bool:
        """Whether a segment was closed since the last flush, or records wait for longer than flush.ms."""
        recovery_point = self._offsets.recovery_point
        if recovery_point >= self._offsets.log_end_offset or self._health.failure is not None:
            return False
        if recovery_point < self._segments.active.base_offset:
            return True
        # After the clock was set back nothing says how long records have waited.
        return not 0 <= now_ms - self._flushed_at_ms < config.flush_ms

    def flush(self, up_to: int | None = None) -> None:
        """Return once everything below `up_to`, or the log's end, is on the device. Raises KafkaStorageError."""
        flush = self.begin_flush(up_to)
        if flush is not None:
            self.end_flush(flush, flush.try_sync())

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """The flush that is due, None for none. The caller hands it to `end_flush` after its `sync`."""
        self._health.require_usable()
        end = self._offsets.log_end_offset if up_to is None else up_to
        return None if end <= self._offsets.recovery_point else self._prepare(with_active_indexes=False)

    def _prepare(self, *, with_active_indexes: bool) -> Flush:
        unsynced, segments = self._unsynced, self._segments
        paths = list(unsynced.paths)
        directories = list(unsynced.directories)
        with self._health.attempt("a flush", may_pass=False):
            # The segment before the recovery point may have been closed since, its indexes written but not synced.
            synced = segments.from_offset(self._offsets.recovery_point - 1)
            files = [segment.file for segment in synced]
        for segment in synced:
            # A crash rebuilds the active segment's indexes, so only those of closed ones have to be safe.
            if with_active_indexes or segment is not segments.active:
                paths += (segment.path + INDEX_SUFFIX, segment.path + TIME_INDEX_SUFFIX)
                if not segment.transaction_index.is_empty:
                    # Its first abort makes this file, perhaps long after the segment's other names were synced.
                    paths.append(segment.transaction_index.path)
                    directories.append(self._health.directory)
        unsynced.clear()
        self._flushed_at_ms = self._clock.wall_ms()
        return Flush(
            offset=self._offsets.log_end_offset,
            truncations=self._offsets.truncations,
            files=files,
            paths=paths,
            directories=list(dict.fromkeys(directories)),
            disk=self._disk,
        )

    def end_flush(self, flush: Flush, error: OSError | None = None) -> None:
        """Move the recovery point; `error` is what `flush.sync` raised. Raises KafkaStorageError for it."""
        if error is not None:
            # Also after a shortage: the kernel may have dropped the pages that it could not write.
            raise self._health.disk_failed("a flush", error, may_pass=False) from error
        offsets = self._offsets
        if flush.truncations == offsets.truncations and flush.offset > offsets.recovery_point:
            offsets.recovery_point = flush.offset

    # --- end -------------------------------------------------------------------------------------------------------

    def begin_close(self, *, with_parent: bool = True) -> Flush | None:
        """Write what is only in memory; what has to be synced then, None for nothing.

        The caller syncs it, on any thread, and hands it to `end_close`; nothing may be appended in between. Without
        `with_parent` the caller syncs the log directory's own names, once for many logs. Raises KafkaStorageError.
        """
        offsets, unsynced = self._offsets, self._unsynced
        with self._health.attempt("the close"):
            self._segments.active.write_indexes(final=True)
            if self._producers.take_snapshot(offsets.log_end_offset):
                unsynced.paths.add(f"{self._health.directory}/{snapshot_name(offsets.log_end_offset)}")
                unsynced.add_names()
            elif not unsynced.has_changed_files and offsets.log_end_offset <= min(
                offsets.opened_at_offset, offsets.recovery_point
            ):
                return None
            if not with_parent:
                unsynced.directories.discard(self._health.parent_directory)
            return self._prepare(with_active_indexes=True)

    def end_close(self, flush: Flush | None, error: OSError | None = None) -> None:
        """The log is closed; `error` is what the sync raised. Raises KafkaStorageError for it."""
        if flush is not None:
            self.end_flush(flush, error)
        self._health.fail("it was closed")
