"""One partition's log, as the rest of the broker sees it: a facade over its parts.

    offsets     where the log starts, up to where it is on the device, where it ends      log_offsets
    segments    the files: roll, truncate, delete, swap                                   segment_set
    appender    checks batches, gives them offsets, writes them                           log_appender
    reader      ranges of files, look-ups by time and epoch                               log_reader
    flusher     what is not on the device yet; closing                                    log_flusher
    health      whether the log can be used, what a failing disk means for it             log_health

Truncation and deletion are here, since they change several of these together. `retention` says what may be deleted.

One thread at a time may use a log, except for `Flush.sync`, the reading of slices, and a cleaner that reads closed
segments. What lies between the recovery point and the log's end is in the page cache only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError, OffsetOutOfRange
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.storage.append_rules import Admitted, AppendResult, Origin, Records
from odradek.storage.checkpoints import PARTITION_METADATA_FILE, read_topic_id, write_topic_id
from odradek.storage.config import LogConfig
from odradek.storage.disk_space import error_text, is_shortage
from odradek.storage.epochs import FILE_NAME as EPOCHS_FILE
from odradek.storage.epochs import EpochEntry
from odradek.storage.files import Disk, FileSlice
from odradek.storage.loading import LoadedLog, LogLoader
from odradek.storage.log_appender import EPOCH_MAX, LogAppender
from odradek.storage.log_flusher import Flush, LogFlusher
from odradek.storage.log_health import LogHealth, OnDiskError
from odradek.storage.log_parts import LogParts
from odradek.storage.log_reader import LogReader
from odradek.storage.lookup import Search, TimestampOffset
from odradek.storage.open_files import OpenFiles
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.recovery import replay_producers
from odradek.storage.retention import LogView, old_segments, view_log
from odradek.storage.segment import Segment
from odradek.storage.segment_set import SegmentSet
from odradek.storage.segment_swap import remove_cleaned
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.unsynced_files import UnsyncedFiles
from odradek.storage.verification import VerificationToken

logger = logging.getLogger(__name__)

__all__ = ["EPOCH_MAX", "AppendResult", "Log", "Origin", "TimestampOffset"]


class Log:
    """Made by `Log.open`.

    The appender and the reader are public: a leader and its readers ask them, so that a batch costs no call more.
    """

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        loaded: LoadedLog,
        *,
        topic_id: TopicId | None,
        config: LogConfig,
        disk: Disk,
        clock: Clock,
        open_files: OpenFiles,
        on_failure: OnDiskError | None,
        on_shortage: OnDiskError | None,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.epochs, self.producers = loaded.epochs, loaded.producers
        # What opening the log had to read in full, and what recovery removed.
        self.recovered_bytes = loaded.bytes_scanned
        self.truncated_bytes = loaded.bytes_truncated
        self._disk = disk
        self._clock = clock
        self._unsynced = UnsyncedFiles(directory)
        self.offsets = loaded.offsets
        self.segments = SegmentSet(
            directory,
            loaded.segments,
            disk=disk,
            clock=clock,
            open_files=open_files,
            producers=loaded.producers,
            unsynced=self._unsynced,
            config=config,
        )
        self._health = LogHealth(
            directory,
            topic_partition,
            release_files=self.segments.release,
            on_failure=on_failure,
            on_shortage=on_shortage,
        )
        # The log directory that this one is in.
        self.parent_directory = self._health.parent_directory
        parts = LogParts(
            self.segments,
            self.offsets,
            self._health,
            self.epochs,
            self.producers,
            self._unsynced,
            disk,
            clock,
        )
        self.reader = LogReader(parts, config)
        self.appender = LogAppender(parts, self.reader, config)
        self._flusher = LogFlusher(parts)

    @classmethod
    def open(
        cls,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: LogConfig,
        disk: Disk,
        clock: Clock,
        topic_id: TopicId | None = None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool,
        producer_rules: ProducerRules | None = None,
        open_files: OpenFiles | None = None,
        on_failure: OnDiskError | None = None,
        on_shortage: OnDiskError | None = None,
        on_loss: Callable[[], None] | None = None,
    ) -> Log:
        """Open the log in `directory`, making it when needed.

        `log_start_offset` and `recovery_point` are as checkpointed. A log that was closed cleanly (`clean`) is not
        scanned. A `topic_id` is written into a directory that has none. All logs of a broker share `open_files`.
        `on_loss` is called before damaged records are removed.
        Raises KafkaStorageError.
        """
        open_files = open_files or OpenFiles()
        try:
            disk.make_directory(directory)
            metadata = f"{directory}/{PARTITION_METADATA_FILE}"
            stored_id = read_topic_id(disk, metadata, may_be_damaged=not clean)
            if stored_id is None and topic_id is not None:
                write_topic_id(disk, metadata, topic_id)
            loader = LogLoader(
                directory,
                topic_partition,
                config=config,
                disk=disk,
                open_files=open_files,
                now_ms=clock.wall_ms(),
                producer_rules=producer_rules,
                on_loss=on_loss,
            )
            loaded = loader.load(
                log_start_offset=log_start_offset, recovery_point=recovery_point, clean=clean
            )
        except OSError as error:
            raise KafkaStorageError(
                f"the log of {topic_partition} in {directory} cannot be opened: {error_text(error)}"
            ) from error
        log = cls(
            directory,
            topic_partition,
            loaded,
            topic_id=stored_id or topic_id,
            config=config,
            disk=disk,
            clock=clock,
            open_files=open_files,
            on_failure=on_failure,
            on_shortage=on_shortage,
        )
        if stored_id is None and topic_id is not None:
            log._unsynced.add_file(PARTITION_METADATA_FILE)
        return log

    def adopt_topic_id(self, topic_id: TopicId) -> None:
        """Write down that the directory is this topic's, where nothing says so. Raises KafkaStorageError."""
        with self._health.attempt("noting the topic's id"):
            write_topic_id(self._disk, f"{self.directory}/{PARTITION_METADATA_FILE}", topic_id)
        self.topic_id = topic_id
        self._unsynced.add_file(PARTITION_METADATA_FILE)

    def move_to(self, directory: str) -> None:
        """Use the files in `directory` from now on: a copy, complete and on the device up to the recovery point.

        A flush that is under way says nothing of them, so it moves no recovery point.
        """
        self.directory = directory
        self._health.move_to(directory)
        self.parent_directory = self._health.parent_directory
        self._unsynced.begin_in(directory)
        self.epochs.move_to(f"{directory}/{EPOCHS_FILE}")
        if self.producers.files is not None:
            self.producers.files.move_to(directory)
        self.segments.move_to(directory)
        self.offsets.truncations += 1

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.offsets.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is on the device."""
        return self.offsets.recovery_point

    @property
    def failure(self) -> str | None:
        """Why the log cannot be used any more; None while it can."""
        return self._health.failure

    @property
    def must_flush(self) -> bool:
        """Whether as many records are unflushed as flush.messages allows, or more."""
        offsets = self.offsets
        return offsets.log_end_offset - offsets.recovery_point >= self.config.flush_messages

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def highest_timestamp(self) -> int:
        """The newest timestamp in the log in ms, -1 for none. Raises KafkaStorageError."""
        return self.reader.highest_timestamp()

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether a segment was closed since the last flush, or records wait for longer than flush.ms.

        `now_ms` is the wall clock's time.
        """
        return self._flusher.is_flush_due(now_ms, self.config)

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        for part in (self.segments, self.reader, self.appender):
            part.reconfigure(config)

    # --- what the parts do, where it is described ------------------------------------------------------------------

    def append(
        self,
        records: Records,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        token: VerificationToken | None = None,
    ) -> AppendResult:
        return self.appender.append(records, leader_epoch=leader_epoch, origin=origin, token=token)

    def admit_next(self, admitted: Admitted) -> None:
        self.appender.admit_next(admitted)

    def append_as_follower(self, records: Records, *, leader_epoch_max: int = EPOCH_MAX) -> AppendResult:
        return self.appender.append_as_follower(records, leader_epoch_max=leader_epoch_max)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        self.appender.assign_leader_epoch(leader_epoch)

    def read(
        self,
        fetch_offset: int,
        *,
        bytes_max: int,
        offset_limit: int | None = None,
        at_least_one_batch: bool = True,
    ) -> FileSlice:
        return self.reader.read(
            fetch_offset,
            bytes_max=bytes_max,
            offset_limit=offset_limit,
            at_least_one_batch=at_least_one_batch,
        )

    def offset_for_timestamp(
        self, timestamp_ms: int, *, offset_limit: int | None = None
    ) -> TimestampOffset | None:
        return self.reader.offset_for_timestamp(timestamp_ms, offset_limit=offset_limit)

    def offset_of_max_timestamp(self, *, offset_limit: int | None = None) -> TimestampOffset | None:
        return self.reader.offset_of_max_timestamp(offset_limit=offset_limit)

    def search_timestamp(self, timestamp_ms: int, *, offset_limit: int | None = None) -> Search:
        return self.reader.search_timestamp(timestamp_ms, offset_limit=offset_limit)

    def search_newest(self, *, offset_limit: int | None = None) -> Search:
        return self.reader.search_newest(offset_limit=offset_limit)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        return self.reader.end_offset_for_epoch(epoch)

    def find_aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        return self.reader.find_aborted_transactions(fetch_offset, upper_offset)

    def find_aborted_in(
        self, records: FileSlice, fetch_offset: int, *, offset_limit: int
    ) -> list[AbortedTxn]:
        return self.reader.find_aborted_in(records, fetch_offset, offset_limit=offset_limit)

    def flush(self, up_to: int | None = None) -> None:
        self._flusher.flush(up_to)

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        return self._flusher.begin_flush(up_to)

    def end_flush(self, flush: Flush, error: OSError | None = None) -> None:
        self._flusher.end_flush(flush, error)

    def begin_close(self, *, with_parent: bool = True) -> Flush | None:
        return self._flusher.begin_close(with_parent=with_parent)

    def end_close(self, flush: Flush | None, error: OSError | None = None) -> None:
        self._flusher.end_close(flush, error)

    def fail(self, why: str) -> None:
        self._health.fail(why)

    # --- change the segments ---------------------------------------------------------------------------------------

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and begin a new one at the log's end; nothing when the active one is empty.

        Raises KafkaStorageError; the active segment stays the active one then.
        """
        with self._health.attempt("a roll"):
            self.segments.roll(self.log_end_offset if base_offset is None else base_offset)

    def swap_segments(self, replaced: Sequence[Segment], base_offsets: Sequence[int]) -> None:
        """Put the `.cleaned` segments at `base_offsets` in the place of a run of closed segments (`SegmentSet.swap`).

        Raises ValueError when they cannot replace that run, CorruptRecord, KafkaStorageError.
        """
        with self._health.attempt("a swap of segments", may_pass=False):
            self.segments.swap(replaced, base_offsets)
        logger.info("%s: %s replace %d segments", self.topic_partition, base_offsets, len(replaced))

    def remove_cleaned(self) -> None:
        """Remove the `.cleaned` files of a round that has ended: they take space. Raises OSError."""
        remove_cleaned(self._disk, self.directory)

    def report_failed_disk(self, action: str, error: OSError) -> None:
        """The disk refused this to what works on the log's files from outside: the log fails, with its directory."""
        self._health.disk_failed(action, error, may_pass=False)

    def truncate_to(self, offset: int) -> None:
        """Truncate the log so that it ends at `offset`, or behind the last batch that ends before it.

        At or above the log's end only an epoch without records is removed, which another leader contested. Raises
        KafkaStorageError.
        """
        self._health.require_usable()
        offsets = self.offsets
        if offset >= offsets.log_end_offset:
            with self._health.attempt("a truncation"):
                self.epochs.truncate_from_end(self.log_end_offset)
            self._unsynced.add_file(EPOCHS_FILE)
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        logger.info("%s is truncated from %d to %d", self.topic_partition, offsets.log_end_offset, offset)
        offsets.truncations += 1
        with self._health.attempt("a truncation", may_pass=False):
            end_offset = self.segments.truncate_to(offset)
            if end_offset < offsets.log_start_offset <= offset:
                # The batch that holds the log's start is gone with the others. The log still starts there.
                end_offset = offsets.log_start_offset
                self.segments.restart_at(end_offset)
            offsets.truncate_to(end_offset)
            self.epochs.truncate_from_end(end_offset)
            self._reload_producers()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records and begin at `offset`. Raises KafkaStorageError."""
        self._health.require_usable()
        logger.info("%s is emptied and starts at %d", self.topic_partition, offset)
        self.offsets.truncations += 1
        with self._health.attempt("a truncation", may_pass=False):
            self.segments.restart_at(offset)
            self.offsets.restart_at(offset)
            self.epochs.clear()
            self._reload_producers()

    def _reload_producers(self) -> None:
        self._unsynced.add_file(EPOCHS_FILE)
        now_ms = self._clock.wall_ms()
        offsets = self.offsets
        from_offset = self.producers.reload(
            log_start_offset=offsets.log_start_offset, log_end_offset=offsets.log_end_offset, now_ms=now_ms
        )
        if from_offset < offsets.log_end_offset:
            replay_producers(
                self.segments.all,
                self.producers,
                from_offset=from_offset,
                now_ms=now_ms,
                rebuild_aborts=False,
            )

    # --- delete ----------------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """Give up the records below `offset`; the next `delete_old_segments` deletes their segments.

        Nothing happens when the log starts there or later. Raises OffsetOutOfRange above the log's end.
        """
        self._health.require_usable()
        offsets = self.offsets
        if offset > offsets.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} ends at {offsets.log_end_offset}: records below {offset} cannot be deleted"
            )
        if offset <= offsets.log_start_offset:
            return
        offsets.log_start_offset = offset
        try:
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            if not is_shortage(error):
                raise self._health.disk_failed("a deletion", error) from error
            # A deletion makes room, so it continues. The next start drops the surplus epochs of the file.
            self._health.report_shortage(error)
        self._unsynced.add_file(EPOCHS_FILE)

    def view_retention(self, high_watermark: int) -> LogView | None:
        """What a retention policy decides on; None where nothing may be deleted. Raises KafkaStorageError."""
        with self._health.attempt("a look at its segments"):
            return view_log(
                self.segments,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                log_end_offset=self.log_end_offset,
                high_watermark=high_watermark,
                config=self.config,
                now_ms=self._clock.wall_ms(),
            )

    def delete_old_segments(
        self, high_watermark: int | None = None, *, chosen_offset: int | None = None
    ) -> int:
        """Delete the oldest segments that are past retention and lie wholly below `high_watermark`.

        `chosen_offset` is what a retention policy decided. Returns how many. Raises KafkaStorageError.
        """
        with self._health.attempt("a deletion"):
            segments = old_segments(
                self.segments,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=high_watermark,
                config=self.config,
                now_ms=self._clock.wall_ms(),
                chosen_offset=chosen_offset,
            )
            return self._delete(segments) if segments else 0

    def _delete(self, segments: Sequence[Segment]) -> int:
        if segments[-1] is self.segments.active:
            try:
                self.segments.roll(self.log_end_offset)
            except OSError as error:
                if not is_shortage(error) or len(segments) == 1:
                    raise
                # A new segment needs the room that the older ones give: the active one is deleted after them.
                self._health.report_shortage(error)
                segments = segments[:-1]
        self.segments.remove(segments)
        self.advance_log_start(max(self.log_start_offset, self.segments.first.base_offset))
        logger.info(
            "%s: %d segments of %d bytes are deleted; it starts at %d now",
            self.topic_partition,
            len(segments),
            sum(segment.size_bytes for segment in segments),
            self.log_start_offset,
        )
        self.segments.delete_files(segments)
        return len(segments)

    # --- end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, and leave the files as a clean start wants them. Raises KafkaStorageError."""
        flush = self.begin_close()
        self.end_close(flush, None if flush is None else flush.try_sync())

    def mark_deleted(self) -> None:
        """Drop the open files without a flush: the partition was deleted."""
        self.fail("it was deleted")
