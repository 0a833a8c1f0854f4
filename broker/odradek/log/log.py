"""One partition's log, as the rest of the broker sees it; this half opens it and appends.

An append is checked, gets its offsets, and goes to the last segment's file in one write: the hot road is kept in few
calls here. Reading is `reading`'s and what changes the set of files `storage`'s, which `Log` extends; what a batch has
to pass is `appending`'s.

One thread at a time may use a log, save `Flush.sync` and the reading of slices. Offsets, in this order:
log_start_offset, recovery_point, log_end_offset; what lies between the last two is in the page cache only.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import InvalidRecord, KafkaStorageError, OutOfOrderSequence
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.limits import PRODUCER_BATCHES_REMEMBERED
from odradek.log.appending import AppendResult, Origin, Records, require_fit, verified_headers
from odradek.log.checkpoints import (
    PARTITION_METADATA_FILE,
    CheckpointDamagedError,
    read_topic_id,
    write_topic_id,
)
from odradek.log.config import LogConfig
from odradek.log.epochs import FILE_NAME as EPOCHS_FILE
from odradek.log.files import Disk
from odradek.log.loading import Loader
from odradek.log.lookup import TimestampOffset
from odradek.log.older_batches import older_batches
from odradek.log.producers import EXPIRATION_MS_DEFAULT, AppendedBatch
from odradek.log.reading import ReadableLog
from odradek.log.recovery import note_abort
from odradek.log.retention import DEFAULT_STRATEGIES, RetentionStrategy
from odradek.log.room import is_shortage
from odradek.log.segment import Segment
from odradek.records.batch import CONTROL_FLAG, BatchHeader, BatchView, verified_header
from odradek.records.control import parse_marker
from odradek.records.validation import single_batch_bytes

logger = logging.getLogger(__name__)

__all__ = ["AppendResult", "Log", "Origin", "TimestampOffset"]

_FRONT: Final = struct.Struct(">qii")
_pack_front = _FRONT.pack
_pack_front_into = _FRONT.pack_into
# Of a batch: length at 8, leader epoch behind it; the length counts what comes after it.
_length_and_epoch = struct.Struct(">8xii").unpack_from
_BEFORE_LENGTH_BYTES: Final = 12
_FRAMING_BYTES: Final = 16
EPOCH_MAX: Final = 2**31 - 1
# A named tuple's own constructor takes three times as long.
_new_tuple = tuple.__new__
# A read-only batch up to this size is copied behind its new front; above it, two buffers in one call are cheaper.
_COPY_BYTES_MAX: Final = 8192


def _read_topic_id(disk: Disk, path: str, *, clean: bool) -> TopicId | None:
    """The topic's id as the directory has it; a crash soon after the log was made may have left half a file."""
    try:
        return read_topic_id(disk, path)
    except CheckpointDamagedError as error:
        if clean:
            raise
        logger.warning("%s is damaged and written anew: %s", path, error)
        return None


class Log(ReadableLog):
    """Made by `Log.open`."""

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
        producer_expiration_ms: int = EXPIRATION_MS_DEFAULT,
        on_failure: Callable[[str, OSError], None] | None = None,
        on_shortage: Callable[[str, OSError], None] | None = None,
        strategies: Sequence[RetentionStrategy] = DEFAULT_STRATEGIES,
    ) -> Log:
        """Open the log in `directory`, making it when needed.

        `log_start_offset` and `recovery_point` are as checkpointed; `clean` tells that it was closed cleanly, so
        that nothing is scanned. A `topic_id` is written into a directory that has none. Raises KafkaStorageError.
        """
        try:
            disk.make_directory(directory)
            metadata = f"{directory}/{PARTITION_METADATA_FILE}"
            stored_id = _read_topic_id(disk, metadata, clean=clean)
            if stored_id is None and topic_id is not None:
                write_topic_id(disk, metadata, topic_id, sync=False)
            loader = Loader(
                directory,
                topic_partition,
                config=config,
                disk=disk,
                now_ms=clock.wall_ms(),
                producer_expiration_ms=producer_expiration_ms,
            )
            loaded = loader.load(
                log_start_offset=log_start_offset, recovery_point=recovery_point, clean=clean
            )
        except OSError as error:
            raise KafkaStorageError(
                f"the log of {topic_partition} in {directory} cannot be opened: {error}"
            ) from error
        log = cls(
            directory,
            topic_partition,
            loaded,
            topic_id=stored_id or topic_id,
            config=config,
            disk=disk,
            clock=clock,
            on_failure=on_failure,
            on_shortage=on_shortage,
            strategies=strategies,
        )
        if stored_id is None and topic_id is not None:
            log._small_file_changed(PARTITION_METADATA_FILE)
        return log

    def adopt_topic_id(self, topic_id: TopicId) -> None:
        """The directory does not say whose it is, or a crash took that away: it is this topic's.

        Raises KafkaStorageError.
        """
        self._require_usable()
        try:
            write_topic_id(self._disk, f"{self.directory}/{PARTITION_METADATA_FILE}", topic_id, sync=False)
        except OSError as error:
            raise self._disk_failed("noting the topic's id", error) from error
        self.topic_id = topic_id
        self._small_file_changed(PARTITION_METADATA_FILE)

    # --- append ----------------------------------------------------------------------------------------------------

    def append(self, records: Records, *, leader_epoch: int, origin: Origin = Origin.CLIENT) -> AppendResult:
        """Append what a leader was sent: offsets are given and the epoch is set, in `records` itself if it can be.

        Afterwards `must_flush` tells whether flush.messages wants the log flushed before the append is acknowledged.
        A client sends one batch; several of the broker's own are appended together or not at all. Raises
        CorruptRecord InvalidRecord RecordTooLarge RecordListTooLarge InvalidTimestamp UnsupportedCompressionType
        OutOfOrderSequence InvalidProducerEpoch InvalidTxnState KafkaStorageError; nothing is written then.
        """
        if self.failure is not None:
            raise self._unusable()
        now_ms = self._clock.wall_ms()
        is_client = origin is Origin.CLIENT
        header = verified_header(records)
        if header[1] + 12 != len(records):
            if not is_client:
                return self._append_several(records, leader_epoch, now_ms=now_ms)
            records = memoryview(records)[: single_batch_bytes(records)]
        header, records = self._rules.admit(header, records, is_client=is_client, now_ms=now_ms)
        if header[9] >= 0:
            if header[5] & CONTROL_FLAG:
                self._check_marker(records)
            else:
                known = self._check_producer(header, is_client=is_client)
                if known is not None:
                    return self._duplicate(header, known)
        first_offset = self.log_end_offset
        last_offset = first_offset + header[6]
        size = header[1] + 12
        try:
            segment = self.segments.active
            if segment.size_bytes + size > self.config.segment_bytes or self._is_roll_due(
                segment, size, last_offset, header[8], now_ms
            ):
                require_fit(size, self.config.segment_bytes, self.topic_partition)
                self._roll(first_offset)
                segment = self.segments.active
            if leader_epoch != self._last_epoch:
                self._assign_epoch(leader_epoch, first_offset)
            position = segment.size_bytes
            if type(records) is bytearray or (type(records) is memoryview and not records.readonly):
                _pack_front_into(records, 0, first_offset, header[1], leader_epoch)
                self._write(segment, b"", records)
            else:
                self._write(segment, _pack_front(first_offset, header[1], leader_epoch), records)
        except OSError as error:
            raise self._disk_failed("an append", error) from error
        segment.note(position, size, last_offset, header[8], self.config.index_interval_bytes)
        self.log_end_offset = last_offset + 1
        if header[9] >= 0:
            self._note_producer(segment, header, first_offset, records, now_ms)
        self._after_append(segment)
        return _new_tuple(
            AppendResult,
            (
                first_offset,
                last_offset,
                now_ms if self._rules.is_log_append_time else -1,
                self.log_start_offset,
                False,
                header[12],
                size,
            ),
        )

    def _write(self, segment: Segment, front: bytes, records: Records) -> None:
        """Write one batch at the segment's end, its first 16 bytes replaced by `front` unless that is empty."""
        file = segment.file
        try:
            if not front:
                file.append(records)
            elif len(records) <= _COPY_BYTES_MAX:
                file.append(front + records[16:])
            else:
                file.append_parts(front, memoryview(records)[16:])
        except OSError as error:
            self._undo_write(segment, error)
            raise

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        """Cut off what a failed write may have left; the log fails when that fails too."""
        try:
            segment.file.truncate(segment.size_bytes)
        except OSError as worse:
            raise self._disk_failed("cutting off a failed append", worse, may_pass=False) from error

    def _after_append(self, segment: Segment) -> None:
        if segment.offset_index.is_write_due:
            self._write_index_entries(segment)
        self.must_flush = self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def _write_index_entries(self, segment: Segment) -> None:
        try:
            segment.write_indexes(final=False)
        except OSError as error:
            # The records are written. On a full disk the entries wait in memory: few, as appends fail there too.
            if not is_shortage(error):
                raise self._disk_failed("an append", error) from error
            self._fell_short(error)

    def _assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self.epochs.assign(epoch=leader_epoch, start_offset=start_offset):
            self._small_file_changed(EPOCHS_FILE)
            self._unsynced_directories.add(self.directory)
        self._last_epoch = leader_epoch

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """This broker leads from here on: the epoch begins at the log's end. Raises KafkaStorageError."""
        self._require_usable()
        if leader_epoch != self._last_epoch:
            try:
                self._assign_epoch(leader_epoch, self.log_end_offset)
            except OSError as error:
                raise self._disk_failed("noting a leader epoch", error) from error

    def _check_marker(self, records: Records) -> None:
        marker = parse_marker(BatchView(records))
        if marker is not None:
            self.producers.check_marker(marker)

    def _check_producer(self, header: BatchHeader, *, is_client: bool) -> AppendedBatch | None:
        """As `producers.check`, which may have forgotten batches at a restart that the log still has."""
        try:
            return self.producers.check(header, is_client=is_client)
        except OutOfOrderSequence:
            below_offset = self.producers.unremembered_below(header)
            if below_offset is None:
                raise
        self.producers.remember_older(
            header.producer_id,
            older_batches(
                lambda offset, bytes_max: self.read(
                    offset, bytes_max=bytes_max, at_least_one_batch=True
                ).read(),
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                below_offset=below_offset,
                floor_offset=self.log_start_offset,
                count_max=PRODUCER_BATCHES_REMEMBERED - 1,
            ),
        )
        return self.producers.check(header, is_client=is_client)

    def _duplicate(self, header: BatchHeader, known: AppendedBatch) -> AppendResult:
        return AppendResult(
            known.first_offset,
            known.last_offset,
            known.timestamp_ms,
            self.log_start_offset,
            True,
            header[12],
            0,
        )

    def _note_producer(
        self, segment: Segment, header: BatchHeader, first_offset: int, records: Records, now_ms: int
    ) -> None:
        if not header[5] & CONTROL_FLAG:
            self.producers.note(header, first_offset=first_offset, timestamp_ms=header[8], now_ms=now_ms)
            return
        marker = parse_marker(BatchView(records))
        if marker is None:
            return
        completed = self.producers.end_transaction(marker, offset=first_offset, now_ms=now_ms)
        if completed is not None:
            try:
                note_abort(segment, self.producers, completed)
            except OSError as error:
                # Without its entry a reader would be shown the aborted records.
                raise self._disk_failed("noting an abort", error, may_pass=False) from error

    def _append_several(self, records: Records, leader_epoch: int, *, now_ms: int) -> AppendResult:
        """Several batches in one append: all are checked and given offsets, then they go the followers' way."""
        checked: list[tuple[BatchHeader, bytearray]] = []
        next_offset = self.log_end_offset
        view = memoryview(records)
        for position, header in verified_headers(view):
            batch = view[position : position + header[1] + 12]
            header, stored = self._rules.admit(header, batch, is_client=False, now_ms=now_ms)
            if header[9] >= 0 and header[5] & CONTROL_FLAG:
                self._check_marker(stored)
            elif header[9] >= 0:
                self.producers.check(header, is_client=False)
            data = bytearray(stored)
            _pack_front_into(data, 0, next_offset, header[1], leader_epoch)
            checked.append((header._replace(base_offset=next_offset, leader_epoch=leader_epoch), data))
            next_offset += header[6] + 1
        result = self._append_whole(
            b"".join(data for _, data in checked), [header for header, _ in checked], now_ms=now_ms
        )
        return result._replace(log_append_time_ms=now_ms if self._rules.is_log_append_time else -1)

    def append_as_follower(self, records: Records, *, leader_epoch_max: int = EPOCH_MAX) -> AppendResult:
        """Append what a leader stored: offsets and epochs as they stand, in one write.

        Left out is a torn batch at the end, what no longer fits a segment, and what comes from an epoch above
        `leader_epoch_max`; `size_bytes` of the result tells how much was taken. Raises CorruptRecord, InvalidRecord for
        offsets below the log's end, RecordListTooLarge, KafkaStorageError; nothing is written then.
        """
        self._require_usable()
        view = memoryview(records)
        segment_bytes = self.config.segment_bytes
        found: list[BatchHeader] = []
        next_offset = self.log_end_offset
        end, available = 0, len(view)
        while available - end >= _FRAMING_BYTES:
            length, epoch = _length_and_epoch(view, end)
            size = length + _BEFORE_LENGTH_BYTES
            if length <= 0 or end + size > available or epoch > leader_epoch_max:
                break
            if found and end + size > segment_bytes:
                break
            header = verified_header(view, end)
            if header[0] < next_offset or header[6] < 0:
                raise InvalidRecord(
                    f"{self.topic_partition} ends at {next_offset} and was given a batch at {header[0]} by its leader"
                )
            found.append(header)
            next_offset = header[0] + header[6] + 1
            end += size
        return self._append_whole(view[:end], found, now_ms=self._clock.wall_ms())

    def _append_whole(self, data: Records, found: Sequence[BatchHeader], *, now_ms: int) -> AppendResult:
        """Write batches that have their offsets already, in one call."""
        if not found:
            return AppendResult(
                self.log_end_offset, self.log_end_offset - 1, -1, self.log_start_offset, False, 0, 0
            )
        size = len(data)
        first_offset, last_offset = found[0][0], found[-1].last_offset
        newest_ms = found[0][8] if len(found) == 1 else max(header[8] for header in found)
        require_fit(size, self.config.segment_bytes, self.topic_partition)
        try:
            segment = self.segments.active
            if self._is_roll_due(segment, size, last_offset, newest_ms, now_ms):
                self._roll(first_offset)
                segment = self.segments.active
            for header in found:
                if header[2] > self._last_epoch:
                    self._assign_epoch(header[2], header[0])
            position = segment.size_bytes
            self._write(segment, b"", data)
        except OSError as error:
            raise self._disk_failed("an append", error) from error
        place = 0
        view = memoryview(data)
        interval_bytes = self.config.index_interval_bytes
        for header in found:
            batch_bytes = header[1] + _BEFORE_LENGTH_BYTES
            batch_last_offset = header[0] + header[6]
            segment.note(position + place, batch_bytes, batch_last_offset, header[8], interval_bytes)
            self.log_end_offset = batch_last_offset + 1
            if header[9] >= 0:
                self._note_producer(segment, header, header[0], view[place : place + batch_bytes], now_ms)
            place += batch_bytes
        self._after_append(segment)
        count = sum(header[12] for header in found)
        return AppendResult(first_offset, last_offset, -1, self.log_start_offset, False, count, size)
