"""Appends batches to a log: checks them, gives them offsets and writes them to the active segment in one call.

The produce path runs `append` for every batch, so it makes few calls and unpacks a header's fields once. `append_rules`
says what a batch has to pass, `producers` whether it is a duplicate or follows a gap.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.foundation.errors import InvalidRecord
from odradek.foundation.limits import INDEX_ENTRIES_UNWRITTEN_MAX, PRODUCER_BATCHES_REMEMBERED
from odradek.foundation.transaction_errors import OutOfOrderSequence
from odradek.storage.append_rules import (
    Admitted,
    AppendResult,
    AppendRules,
    Origin,
    Records,
    require_fit,
    verify_headers,
)
from odradek.storage.config import LogConfig
from odradek.storage.disk_space import is_shortage
from odradek.storage.epochs import FILE_NAME as EPOCHS_FILE
from odradek.storage.log_parts import LogParts
from odradek.storage.log_reader import LogReader
from odradek.storage.recovery import note_abort
from odradek.storage.segment import Segment
from odradek.storage.segment_set import RELATIVE_OFFSET_MAX
from odradek.storage.sequences import AppendedBatch
from odradek.storage.verification import VerificationToken
from odradek.wire.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    BatchView,
    read_header,
    validate_header,
    verify_header,
)
from odradek.wire.records.control import parse_marker
from odradek.wire.records.validation import single_batch_bytes

# Offsets to go back by at first; each step is as long as all before it, so that nearby batches cost one read.
_STEP_OFFSETS: Final = 256
_READ_BYTES_MAX: Final = 1024 * 1024
SEARCHED_BYTES_MAX: Final = 4 * 1024 * 1024

Read = Callable[[int, int], bytes]
"""(offset, most bytes) -> batches from the one that holds the offset, the last perhaps torn; b"" at the end."""


EPOCH_MAX: Final = 2**31 - 1

_FRONT: Final = struct.Struct(">qii")
_pack_front = _FRONT.pack
_pack_front_into = _FRONT.pack_into
_FRONT_BYTES: Final = _FRONT.size
# Of a batch: length at 8, leader epoch behind it.
_length_and_epoch = struct.Struct(">8xii").unpack_from
# A named tuple's own constructor takes three times as long.
_new_tuple = tuple.__new__
# A read-only batch up to this size is copied behind its new front; above it, two buffers in one call are cheaper.
_COPY_BYTES_MAX: Final = 8192


class LogAppender:
    """The only writer of one log's active segment and of its end offset."""

    __slots__ = (
        "_admitted",
        "_clock",
        "_config",
        "_epochs",
        "_health",
        "_offsets",
        "_producers",
        "_reader",
        "_rules",
        "_segments",
        "_unsynced",
    )

    def __init__(self, parts: LogParts, reader: LogReader, config: LogConfig) -> None:
        self._segments, self._offsets = parts.segments, parts.offsets
        self._health, self._epochs = parts.health, parts.epochs
        self._producers, self._unsynced = parts.producers, parts.unsynced
        self._clock = parts.clock
        self._reader = reader
        self._admitted: Admitted | None = None
        self.reconfigure(config)

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self._config = config
        self._rules = AppendRules(config, self._health.topic_partition)

    def admit_next(self, admitted: Admitted) -> None:
        """Take these checks and changes as done, if the next append is of that batch and the settings are the same."""
        self._admitted = admitted

    # --- as a leader -----------------------------------------------------------------------------------------------

    def append(
        self,
        records: Records,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        token: VerificationToken | None = None,
    ) -> AppendResult:
        """Append what a leader was sent: offsets and epoch are set, in `records` itself when it can be written to.

        Afterwards `Log.must_flush` says whether flush.messages wants a flush before the append is acknowledged.
        A client sends one batch; several of the broker's own are appended together or not at all. `token` is that of
        the producer's verification, for a batch that begins a transaction (`verification`). Raises
        CorruptRecord InvalidRecord RecordTooLarge RecordListTooLarge InvalidTimestamp UnsupportedCompressionType
        OutOfOrderSequence InvalidProducerEpoch InvalidTxnState KafkaStorageError; nothing is written then.
        Raises LongWork for a client's batch that has to be admitted in a thread first.
        """
        if self._health.failure is not None:
            raise self._health.unusable()
        now_ms = self._clock.wall_ms()
        is_client = origin is Origin.CLIENT
        header = verify_header(records)
        if header.batch_length + LOG_OVERHEAD_BYTES != len(records):
            if not is_client:
                return self._append_several(records, leader_epoch, now_ms=now_ms)
            records = memoryview(records)[: single_batch_bytes(records)]
        header, records = self._admit(header, records, is_client=is_client, now_ms=now_ms)
        _, length, _, _, _, attributes, offset_delta, _, max_timestamp_ms, producer_id, _, _, count = header
        if producer_id >= 0:
            if attributes & CONTROL_FLAG:
                self._check_marker(records)
            else:
                known = self._check_producer(header, is_client=is_client, token=token)
                if known is not None:
                    return self._duplicate(known, count)
        offsets = self._offsets
        first_offset = offsets.log_end_offset
        last_offset = first_offset + offset_delta
        size = length + LOG_OVERHEAD_BYTES
        segments = self._segments
        try:
            if segments.is_roll_due(size, last_offset, max_timestamp_ms, now_ms):
                require_fit(size, self._config.segment_bytes, self._health.topic_partition)
                segments.roll(first_offset)
            segment = segments.active
            if leader_epoch != self._epochs.latest_epoch:
                self._assign_epoch(leader_epoch, first_offset)
            position = segment.size_bytes
            if type(records) is bytearray or (type(records) is memoryview and not records.readonly):
                _pack_front_into(records, 0, first_offset, length, leader_epoch)
                self._write(segment, b"", records)
            else:
                self._write(segment, _pack_front(first_offset, length, leader_epoch), records)
        except OSError as error:
            raise self._health.disk_failed("an append", error) from error
        segment.note_batch(position, size, last_offset, max_timestamp_ms, self._config.index_interval_bytes)
        offsets.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self._note_producer(segment, header, first_offset, records, now_ms)
        if len(segment.offset_index.unwritten) >= INDEX_ENTRIES_UNWRITTEN_MAX:
            self._write_index_entries(segment)
        return _new_tuple(
            AppendResult,
            (
                first_offset,
                last_offset,
                now_ms if self._rules.is_log_append_time else -1,
                offsets.log_start_offset,
                False,
                count,
                size,
            ),
        )

    def _admit(
        self, header: BatchHeader, records: Records, *, is_client: bool, now_ms: int
    ) -> tuple[BatchHeader, Records]:
        """As `AppendRules.admit_at_once`, which is asked only about a batch that it may refuse or change."""
        base_offset, length, _, _, _, attributes, _, base_ms, max_ms, _, _, _, _ = header
        rules = self._rules
        if (
            rules.needs_more
            or length + LOG_OVERHEAD_BYTES > rules.size_max
            or max_ms - now_ms > rules.after_max_ms
            or (is_client and (base_offset or attributes & LOG_APPEND_TIME_FLAG or max_ms < base_ms))
        ):
            admitted, self._admitted = self._admitted, None
            if admitted is not None and admitted.rules is rules and admitted.arrived == header:
                return admitted.header, admitted.batch
            return rules.admit_at_once(header, records, is_client=is_client, now_ms=now_ms)
        if is_client:
            validate_header(header)
        return header, records

    def _check_marker(self, records: Records) -> None:
        marker = parse_marker(BatchView(records))
        if marker is not None:
            self._producers.check_marker(marker)

    def _check_producer(
        self, header: BatchHeader, *, is_client: bool, token: VerificationToken | None
    ) -> AppendedBatch | None:
        """As `producers.check`, which may have forgotten batches at a restart that the log still has."""
        try:
            return self._producers.check(header, is_client=is_client, token=token)
        except OutOfOrderSequence:
            below_offset = self._producers.find_unremembered_end(header)
            if below_offset is None:
                raise
        self._producers.remember_older(
            header.producer_id,
            older_batches(
                lambda offset, bytes_max: self._reader.read(offset, bytes_max=bytes_max).read(),
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                below_offset=below_offset,
                floor_offset=self._offsets.log_start_offset,
                count_max=PRODUCER_BATCHES_REMEMBERED - 1,
            ),
        )
        return self._producers.check(header, is_client=is_client, token=token)

    def _duplicate(self, known: AppendedBatch, record_count: int) -> AppendResult:
        return AppendResult(
            known.first_offset,
            known.last_offset,
            known.timestamp_ms,
            self._offsets.log_start_offset,
            True,
            record_count,
            0,
        )

    def _append_several(self, records: Records, leader_epoch: int, *, now_ms: int) -> AppendResult:
        """Several batches in one append: all are checked and given offsets, then written as a follower's are."""
        checked: list[tuple[BatchHeader, bytearray]] = []
        next_offset = self._offsets.log_end_offset
        view = memoryview(records)
        for position, found in verify_headers(view):
            batch = view[position : position + found.size_bytes]
            header, stored = self._rules.admit(found, batch, is_client=False, now_ms=now_ms)
            if header.producer_id >= 0 and header.is_control:
                self._check_marker(stored)
            elif header.producer_id >= 0:
                self._producers.check(header, is_client=False)
            data = bytearray(stored)
            _pack_front_into(data, 0, next_offset, header.batch_length, leader_epoch)
            checked.append((header._replace(base_offset=next_offset, leader_epoch=leader_epoch), data))
            next_offset += header.last_offset_delta + 1
        result = self._append_whole(
            b"".join(data for _, data in checked), [header for header, _ in checked], now_ms=now_ms
        )
        return result._replace(log_append_time_ms=now_ms if self._rules.is_log_append_time else -1)

    # --- as a follower ---------------------------------------------------------------------------------------------

    def append_as_follower(self, records: Records, *, leader_epoch_max: int = EPOCH_MAX) -> AppendResult:
        """Append what a leader stored, in one write: offsets and epochs stay.

        Left out are a torn batch at the end, what no longer fits a segment, and batches of an epoch above
        `leader_epoch_max`. The result's `size_bytes` is how much was appended. An empty log takes the whole batch that
        holds its start, and starts where it did. Raises CorruptRecord, InvalidRecord for other offsets below the log's
        end, RecordListTooLarge, KafkaStorageError; nothing is written then.
        """
        self._health.require_usable()
        view = memoryview(records)
        segment_bytes = self._config.segment_bytes
        found: list[BatchHeader] = []
        next_offset = self._offsets.log_end_offset
        end, available = 0, len(view)
        while available - end >= _FRONT_BYTES:
            length, epoch = _length_and_epoch(view, end)
            size = length + LOG_OVERHEAD_BYTES
            if length <= 0 or end + size > available or epoch > leader_epoch_max:
                break
            if found and end + size > segment_bytes:
                break
            header = verify_header(view, end)
            base_offset, offset_delta = header.base_offset, header.last_offset_delta
            if offset_delta < 0 or (base_offset < next_offset and (found or not self._starts_inside(header))):
                raise InvalidRecord(
                    f"{self._health.topic_partition} ends at {next_offset} and was given a batch at {base_offset} "
                    "by its leader"
                )
            found.append(header)
            next_offset = base_offset + offset_delta + 1
            end += size
        return self._append_whole(view[:end], found, now_ms=self._clock.wall_ms())

    def _starts_inside(self, header: BatchHeader) -> bool:
        """Whether the log is empty and this batch holds its start: DeleteRecords may name any record of a batch."""
        start_offset = self._offsets.log_start_offset
        return (
            start_offset == self._offsets.log_end_offset
            and header.base_offset < start_offset <= header.last_offset
        )

    def _append_whole(self, data: Records, found: Sequence[BatchHeader], *, now_ms: int) -> AppendResult:
        """Write batches that have their offsets already, in one call."""
        offsets, segments = self._offsets, self._segments
        if not found:
            end = offsets.log_end_offset
            return AppendResult(end, end - 1, -1, offsets.log_start_offset, False, 0, 0)
        size = len(data)
        first_offset, last_offset = found[0].base_offset, found[-1].last_offset
        newest_ms = max([header.max_timestamp_ms for header in found])
        require_fit(size, self._config.segment_bytes, self._health.topic_partition)
        try:
            if first_offset < offsets.log_end_offset:
                # A segment holds no offset below its own. The checkpoint of the start says what readers may ask for.
                segments.restart_at(first_offset)
                offsets.restart_below_start(first_offset)
            if segments.is_roll_due(size, last_offset, newest_ms, now_ms):
                # A closed segment ends where the next one begins, also before a gap that compaction left at the leader.
                # A scan after a loss of power relies on it.
                end = offsets.log_end_offset
                segments.roll(end if last_offset - end <= RELATIVE_OFFSET_MAX else first_offset)
            segment = segments.active
            for header in found:
                if header.leader_epoch > self._epochs.latest_epoch:
                    epoch_start_offset = max(header.base_offset, offsets.log_start_offset)
                    self._assign_epoch(header.leader_epoch, epoch_start_offset)
            position = segment.size_bytes
            self._write(segment, b"", data)
        except OSError as error:
            raise self._health.disk_failed("an append", error) from error
        view = memoryview(data)
        start = position
        interval_bytes = self._config.index_interval_bytes
        record_count = 0
        for header in found:
            base_offset, length, _, _, _, _, offset_delta, _, newest_ms, producer_id, _, _, count = header
            batch_bytes = length + LOG_OVERHEAD_BYTES
            segment.note_batch(position, batch_bytes, base_offset + offset_delta, newest_ms, interval_bytes)
            offsets.log_end_offset = base_offset + offset_delta + 1
            if producer_id >= 0:
                batch = view[position - start : position - start + batch_bytes]
                self._note_producer(segment, header, base_offset, batch, now_ms)
            position += batch_bytes
            record_count += count
        if len(segment.offset_index.unwritten) >= INDEX_ENTRIES_UNWRITTEN_MAX:
            self._write_index_entries(segment)
        return AppendResult(
            first_offset, last_offset, -1, offsets.log_start_offset, False, record_count, size
        )

    # --- steps of both ---------------------------------------------------------------------------------------------

    def _write(self, segment: Segment, front: bytes, records: Records) -> None:
        """Write one batch at the segment's end, its first 16 bytes replaced by `front` unless that is empty."""
        file = segment.file
        try:
            if not front:
                file.append(records)
            elif len(records) <= _COPY_BYTES_MAX:
                file.append(front + records[_FRONT_BYTES:])
            else:
                file.append_parts(front, memoryview(records)[_FRONT_BYTES:])
        except OSError as error:
            self._undo_write(segment, error)
            raise

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        """Remove what a failed write may have left; the log fails when that fails too."""
        try:
            segment.file.truncate(segment.size_bytes)
        except OSError as worse:
            raise self._health.disk_failed("cutting off a failed append", worse, may_pass=False) from error

    def _note_producer(
        self, segment: Segment, header: BatchHeader, first_offset: int, records: Records, now_ms: int
    ) -> None:
        producers = self._producers
        if not header.attributes & CONTROL_FLAG:
            producers.note(
                header, first_offset=first_offset, timestamp_ms=header.max_timestamp_ms, now_ms=now_ms
            )
            return
        marker = parse_marker(BatchView(records))
        if marker is None:
            return
        completed = producers.end_transaction(marker, offset=first_offset, now_ms=now_ms)
        if completed is not None:
            try:
                note_abort(segment, producers, completed)
            except OSError as error:
                # Without its entry a reader would be shown the aborted records.
                raise self._health.disk_failed("noting an abort", error, may_pass=False) from error

    def _write_index_entries(self, segment: Segment) -> None:
        try:
            segment.write_indexes(final=False)
        except OSError as error:
            # The records are written. On a full disk the entries wait in memory: few, as appends fail there too.
            if not is_shortage(error):
                raise self._health.disk_failed("an append", error) from error
            self._health.report_shortage(error)

    def _assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self._epochs.assign(epoch=leader_epoch, start_offset=start_offset):
            self._unsynced.add_file(EPOCHS_FILE)
            self._unsynced.add_names()

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """This broker leads from here on: the epoch begins at the log's end. Raises KafkaStorageError."""
        with self._health.attempt("noting a leader epoch"):
            if leader_epoch != self._epochs.latest_epoch:
                self._assign_epoch(leader_epoch, self._offsets.log_end_offset)


def older_batches(
    read: Read, *, producer_id: int, producer_epoch: int, below_offset: int, floor_offset: int, count_max: int
) -> list[AppendedBatch]:
    """Finds in a log what a snapshot of producer states lacks: the batches before each producer's last.

    A client may have five batches in flight. When their leader fails before it has answered, the client sends all of
    them again. The next leader may know that producer from a snapshot alone: after a clean stop, a roll, or a
    truncation. Apache Kafka's snapshots, which these are, have one batch for each producer. Kafka answers
    OutOfOrderSequence to the older ones, and librdkafka ends with a fatal error. The log has them, mostly close to its
    end, so it is searched once for each producer.

    Left out: batches further back than a few megabytes. A producer with that much in flight is refused, as with Kafka.

    The last `count_max` batches of a producer in its epoch between the two offsets, in the log's order. They are fewer
    where the search would pass its bound. Raises what `read` raises.
    """
    found: list[AppendedBatch] = []
    bytes_left = SEARCHED_BYTES_MAX
    end, step = below_offset, _STEP_OFFSETS
    while end > floor_offset and len(found) < count_max and bytes_left > 0:
        begin = position = max(end - step, floor_offset)
        here: list[AppendedBatch] = []
        while position < end and bytes_left > 0:
            data = read(position, min(_READ_BYTES_MAX, bytes_left))
            bytes_left -= max(len(data), 1)
            for header in _headers(data):
                position = header.last_offset + 1
                if header.base_offset >= end:
                    break
                begin = min(begin, header.base_offset)
                is_theirs = (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
                if is_theirs and not header.is_control:
                    here.append(
                        AppendedBatch(
                            header.last_sequence,
                            header.last_offset,
                            header.last_offset_delta,
                            header.max_timestamp_ms,
                        )
                    )
            if not data:
                break
        found[:0] = here
        end, step = begin, 2 * step
    return found[-count_max:]


def _headers(data: bytes) -> Iterator[BatchHeader]:
    """Of all batches in `data`, the last of which may be torn."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        yield header
        position += header.size_bytes
