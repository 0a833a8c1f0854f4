"""The files of one log: rolling, flushing, cutting and deleting them.

`log.Log` adds the roads of records on top. A write that fails is cut off again before the error is told.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.foundation.errors import OffsetOutOfRange
from odradek.log.epochs import FILE_NAME as EPOCHS_FILE
from odradek.log.flushing import Flush
from odradek.log.producer_snapshots import snapshot_name
from odradek.log.recovery import replay_producers
from odradek.log.retention import RetentionView
from odradek.log.room import is_shortage
from odradek.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from odradek.log.state import LogState

logger = logging.getLogger(__name__)


class Storage(LogState):
    """Everything that changes the set of a log's files. One thread at a time."""

    # --- roll ------------------------------------------------------------------------------------------------------

    def _is_roll_due(
        self, segment: Segment, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether an append of `size_bytes` has to go to a new segment."""
        position = segment.size_bytes
        if not position:
            return last_offset - segment.base_offset > 2**31 - 1
        config = self.config
        if position + size_bytes > config.segment_bytes:
            return True
        first_ms = segment.first_timestamp_ms
        if first_ms is None:
            first_ms = segment.roll_timestamp_ms()
            segment.max_timestamp()
        if first_ms >= 0 and max_timestamp_ms >= 0:
            waited_ms = max_timestamp_ms - first_ms
        else:
            waited_ms = now_ms - segment.created_ms
        return (
            waited_ms > config.segment_ms - segment.jitter_ms
            or last_offset - segment.base_offset > 2**31 - 1
            or segment.offset_index.count >= self._offset_entries_max
            or segment.time_index.count >= self._time_entries_max
        )

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin a new one at the log's end; nothing when the active one is empty.

        Raises KafkaStorageError; the active segment stays the active one then.
        """
        self._require_usable()
        try:
            self._roll(self.log_end_offset if base_offset is None else base_offset)
        except OSError as error:
            raise self._disk_failed("a roll", error) from error

    def _roll(self, base_offset: int) -> None:
        old = self.segments.active
        if old.size_bytes == 0 and old.base_offset == base_offset:
            return
        old.write_indexes(final=True)
        self.producers.take_snapshot(base_offset, sync=False)
        new = self._new_segment(base_offset)
        if old.size_bytes == 0:
            self.segments.remove([old])
            self._disposal.discard([old], due_at_seconds=self._clock.monotonic_seconds())
        self.segments.add(new)
        old.close_to_appends()

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment(
            self.directory,
            base_offset,
            disk=self._disk,
            now_ms=self._clock.wall_ms(),
            jitter_ms=self.config.segment_jitter_ms,
        )
        segment.create()
        self._unsynced_directories.add(self.directory)
        return segment

    # --- flush -----------------------------------------------------------------------------------------------------

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether a segment was closed since the last flush, or records wait for longer than flush.ms.

        `now_ms` is the wall clock's time.
        """
        if self.recovery_point >= self.log_end_offset or self.failure is not None:
            return False
        if self.recovery_point < self.segments.active.base_offset:
            return True
        return now_ms - self._flushed_at_ms >= self.config.flush_ms

    def flush(self, up_to: int | None = None) -> None:
        """Return once everything below `up_to`, or the log's end, is on the device. Raises KafkaStorageError."""
        flush = self.begin_flush(up_to)
        if flush is None:
            return
        self.end_flush(flush, flush.try_sync())

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """What has to be synced; None when everything is. Whoever runs its `sync` hands it to `end_flush`."""
        self._require_usable()
        if (self.log_end_offset if up_to is None else up_to) <= self.recovery_point:
            return None
        return self._prepare_flush(with_active_indexes=False)

    def _prepare_flush(self, *, with_active_indexes: bool) -> Flush:
        paths = list(self._unsynced_paths)
        directories = list(self._unsynced_directories)
        try:
            # The segment before the recovery point may have been closed since, its indexes written but not synced.
            segments = self.segments.from_offset(self.recovery_point - 1)
            files = [segment.file for segment in segments]
        except OSError as error:
            raise self._disk_failed("a flush", error, may_pass=False) from error
        for segment in segments:
            # The active segment's indexes are built anew after a crash, so only closed ones have to be safe.
            if with_active_indexes or segment is not self.segments.active:
                paths += (segment.path + INDEX_SUFFIX, segment.path + TIME_INDEX_SUFFIX)
        self._unsynced_paths.clear()
        self._has_changed_small_files = False
        self._unsynced_directories.clear()
        self._flushed_at_ms = self._clock.wall_ms()
        return Flush(
            offset=self.log_end_offset,
            generation=self._generation,
            files=files,
            paths=paths,
            directories=directories,
            disk=self._disk,
        )

    def end_flush(self, flush: Flush, error: OSError | None = None) -> None:
        """Move the recovery point; `error` is what `flush.sync` raised. Raises KafkaStorageError for it."""
        if error is not None:
            # Whatever the reason: the kernel may have dropped the pages that it could not write.
            raise self._disk_failed("a flush", error, may_pass=False) from error
        if flush.generation == self._generation and flush.offset > self.recovery_point:
            self.recovery_point = flush.offset

    # --- cut -------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or where the batch began that holds it.

        At or above the end only an epoch goes in which nothing was written: its leader was another's contender.
        Raises KafkaStorageError.
        """
        self._require_usable()
        if offset >= self.log_end_offset:
            self._forget_empty_epoch()
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        logger.info("%s is cut from %d to %d", self.topic_partition, self.log_end_offset, offset)
        self._generation += 1
        try:
            gone = [segment for segment in self.segments.all if segment.base_offset > offset]
            self.segments.remove(gone)
            self._disposal.discard(gone, due_at_seconds=self._clock.monotonic_seconds())
            active = self.segments.active
            active.is_closed = False
            batch_offset = active.offset_of_batch(offset)
            if batch_offset is not None:
                active.truncate_to(offset)
                # What is cut off must not come back with a crash.
                active.file.sync()
                # The batch goes as a whole, so the log ends where it began.
                offset = min(offset, batch_offset)
            self._disk.sync_directory(self.directory)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self.epochs.truncate_from_end(offset)
            self._after_cut()
        except OSError as error:
            raise self._disk_failed("a truncation", error, may_pass=False) from error

    def _forget_empty_epoch(self) -> None:
        try:
            self.epochs.truncate_from_end(self.log_end_offset)
        except OSError as error:
            raise self._disk_failed("a truncation", error) from error
        self._last_epoch = self.epochs.latest_epoch
        self._small_file_changed(EPOCHS_FILE)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records and begin anew at `offset`. Raises KafkaStorageError."""
        self._require_usable()
        logger.info("%s is emptied and starts at %d", self.topic_partition, offset)
        self._generation += 1
        try:
            gone = self.segments.all
            self._disposal.discard(gone, due_at_seconds=self._clock.monotonic_seconds())
            self.segments.replace([self._new_segment(offset)])
            self._disk.sync_directory(self.directory)
            self.log_start_offset = self.log_end_offset = self.recovery_point = offset
            self.epochs.clear()
            self._after_cut()
        except OSError as error:
            raise self._disk_failed("a truncation", error, may_pass=False) from error

    def _after_cut(self) -> None:
        self._last_epoch = self.epochs.latest_epoch
        self._small_file_changed(EPOCHS_FILE)
        now_ms = self._clock.wall_ms()
        from_offset = self.producers.reload(
            log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset, now_ms=now_ms
        )
        if from_offset < self.log_end_offset:
            replay_producers(
                self.segments.all,
                self.producers,
                from_offset=from_offset,
                now_ms=now_ms,
                rebuild_aborts=False,
            )

    # --- delete ----------------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """Give up the records below `offset`; their segments go with the next `delete_old_segments`.

        Nothing happens when the log starts there or later. Raises OffsetOutOfRange above the log's end.
        """
        self._require_usable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} ends at {self.log_end_offset}: records below {offset} cannot be deleted"
            )
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        try:
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            if not is_shortage(error):
                raise self._disk_failed("a deletion", error) from error
            # A deletion is what makes room, so it goes on. The next start drops the epochs that the file has too many.
            self._fell_short(error)
        self._small_file_changed(EPOCHS_FILE)

    def delete_old_segments(self, high_watermark: int | None = None) -> int:
        """Delete the oldest segments that the retention strategies give up and that are wholly below
        `high_watermark`; how many. Raises KafkaStorageError.
        """
        self._require_usable()
        limit = self.log_end_offset if high_watermark is None else min(high_watermark, self.log_end_offset)
        segments, next_offsets = [], []
        for number, segment in enumerate(self.segments.all):
            next_offset = self.segments.upper_offset(number, end_offset=self.log_end_offset)
            if next_offset > limit or (segment is self.segments.active and not segment.size_bytes):
                break
            segments.append(segment)
            next_offsets.append(next_offset)
        view = RetentionView(
            segments=segments,
            next_offsets=next_offsets,
            log_start_offset=self.log_start_offset,
            size_bytes=self.size_bytes,
            config=self.config,
            now_ms=self._clock.wall_ms(),
        )
        try:
            count = max((strategy(view) for strategy in self._strategies), default=0)
            return self._delete(segments[:count]) if count else 0
        except OSError as error:
            raise self._disk_failed("a deletion", error) from error

    def _delete(self, gone: Sequence[Segment]) -> int:
        if gone[-1] is self.segments.active:
            try:
                self._roll(self.log_end_offset)
            except OSError as error:
                if not is_shortage(error) or len(gone) == 1:
                    raise
                # A new segment needs room, which the older ones give: the active one goes when they are gone.
                self._fell_short(error)
                gone = gone[:-1]
        self.segments.remove(gone)
        self.advance_log_start(max(self.log_start_offset, self.segments.first.base_offset))
        due_at = self._clock.monotonic_seconds() + self.config.file_delete_delay_ms / 1000
        logger.info(
            "%s: %d segments of %d bytes are deleted; it starts at %d now",
            self.topic_partition,
            len(gone),
            sum(segment.size_bytes for segment in gone),
            self.log_start_offset,
        )
        self._disposal.discard(gone, due_at_seconds=due_at)
        return len(gone)

    def take_removals(self, now_seconds: float) -> list[str]:
        """The files of deleted segments whose delay is over, for whoever removes them; given out once."""
        return self._disposal.take_due(now_seconds)

    def delete_due(self, now_seconds: float) -> int:
        """Remove the files of deleted segments whose delay is over; how many. Raises KafkaStorageError."""
        paths = self.take_removals(now_seconds)
        try:
            for path in paths:
                self._disk.remove(path)
        except OSError as error:
            raise self._disk_failed("a deletion", error) from error
        return len(paths)

    # --- end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, and leave the files as a clean start wants them. Raises KafkaStorageError."""
        flush = self.begin_close()
        error = None if flush is None else flush.try_sync()
        self.end_close(flush, error)

    def begin_close(self, *, with_parent: bool = True) -> Flush | None:
        """Write what is only in memory; what has to be synced then, None for nothing.

        Whoever syncs it, on any thread, hands it to `end_close`; nothing may be appended in between. Without
        `with_parent` the log directory's own names are left to the caller, who has many logs to close there.
        Raises KafkaStorageError.
        """
        self._require_usable()
        try:
            self.segments.active.write_indexes(final=True)
            if self.producers.take_snapshot(self.log_end_offset, sync=False):
                self._unsynced_paths.add(f"{self.directory}/{snapshot_name(self.log_end_offset)}")
                self._unsynced_directories.add(self.directory)
            elif not self._has_changed_small_files and self.log_end_offset <= min(
                self._opened_at_offset, self.recovery_point
            ):
                return None
            if not with_parent:
                self._unsynced_directories.discard(self.path_of_directory)
            return self._prepare_flush(with_active_indexes=True)
        except OSError as error:
            raise self._disk_failed("the close", error) from error

    def end_close(self, flush: Flush | None, error: OSError | None = None) -> None:
        """The log is closed; `error` is what the sync raised. Raises KafkaStorageError for it."""
        if flush is not None:
            self.end_flush(flush, error)
        self.fail("it was closed")

    def mark_deleted(self) -> None:
        """Let go of the files without a flush: the partition was deleted."""
        self.fail("it was deleted")
