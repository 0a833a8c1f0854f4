"""The checks that a batch has to pass before it is appended, and the changes that the broker may have to make in it.

The usual batch has create time, goes to a topic without compaction, and is stored as it arrives. Only its header is
read, and `log_appender` recognises it by itself. The rest is rare: stamping the broker's time, recompressing, checking
for keys.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.foundation.errors import InvalidRecord, InvalidTimestamp, RecordListTooLarge, RecordTooLarge
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORD_ERRORS_PER_BATCH_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import (
    BATCH_BYTES_CHECKED_AT_ONCE_MAX,
    BATCH_BYTES_RECOMPRESSED_AT_ONCE_MAX,
    BATCH_RECORDS_CHECKED_AT_ONCE_MAX,
)
from odradek.storage.config import LONG_MAX, RECORD_BYTES_MAX, LogConfig
from odradek.wire.records.batch import (
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    BatchView,
    clear_log_append_time,
    set_log_append_time,
    set_max_timestamp,
    validate_header,
    verify_header,
)
from odradek.wire.records.builder import recompress
from odradek.wire.records.compression import Compression, DecompressedTooLarge
from odradek.wire.records.record import newest_timestamp_ms
from odradek.wire.records.validation import validate_keys, validate_record_sizes, validate_timestamps

Records = bytes | bytearray | memoryview

CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Origin(enum.Enum):
    """The source of the records: the broker's own writes do not pass the checks for clients."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class AppendResult(NamedTuple):
    """Where the records went."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """The broker's time that the records were stamped with; -1 under create time; a duplicate's newest timestamp."""
    log_start_offset: int
    is_duplicate: bool
    """The batch was here already: nothing was written, the offsets are those of then."""
    record_count: int
    size_bytes: int


class Admitted(NamedTuple):
    """A batch that `rules` has admitted: its header as it came, its header and bytes as they are to be stored."""

    rules: AppendRules
    arrived: BatchHeader
    header: BatchHeader
    batch: Records


class LongWork(Exception):
    """To admit the batch takes more than a turn of the event loop may: call `work` in a thread, and append again."""

    def __init__(self, work: Callable[[], Admitted]) -> None:
        super().__init__("the batch is to be admitted in a thread")
        self.work = work


class AppendRules:
    """A topic's settings, prepared for the checks of every batch."""

    __slots__ = (
        "_before_max_ms",
        "_codec",
        "_level",
        "_name",
        "_need_keys",
        "_record_max",
        "after_max_ms",
        "is_log_append_time",
        "needs_more",
        "size_max",
    )

    def __init__(self, config: LogConfig, topic_partition: TopicPartition) -> None:
        self._name = topic_partition
        self.size_max = config.max_message_bytes
        self._before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self._codec = CODECS.get(config.compression_type)
        self._level = config.compression_level
        self._need_keys = config.cleanup_compact
        self._record_max = config.max_decompressed_message_bytes
        self.is_log_append_time = config.is_log_append_time
        self.needs_more = (
            self.is_log_append_time
            or self._need_keys
            or self._codec is not None
            or self._before_max_ms != LONG_MAX
            or self._record_max < RECORD_BYTES_MAX
        )

    def admit_at_once(
        self, header: BatchHeader, batch: Records, *, is_client: bool, now_ms: int
    ) -> tuple[BatchHeader, Records]:
        """As `admit`, within a turn of the event loop. Raises LongWork for a client's batch that takes longer."""
        if is_client and self._reads_records(header, now_ms) and header.size_bytes <= self.size_max:
            is_long = (
                header.record_count > BATCH_RECORDS_CHECKED_AT_ONCE_MAX
                or header.size_bytes > BATCH_BYTES_CHECKED_AT_ONCE_MAX
            )
            try:
                if not is_long:
                    size_max = BATCH_BYTES_CHECKED_AT_ONCE_MAX
                    if self._codec is not None and header.compression != self._codec:
                        size_max = BATCH_BYTES_RECOMPRESSED_AT_ONCE_MAX
                    return self.admit(
                        header, batch, is_client=is_client, now_ms=now_ms, decompressed_max=size_max
                    )
            except DecompressedTooLarge:
                pass
            raise LongWork(partial(self._admit_later, header, batch, now_ms))
        return self.admit(header, batch, is_client=is_client, now_ms=now_ms)

    def _admit_later(self, header: BatchHeader, batch: Records, now_ms: int) -> Admitted:
        return Admitted(self, header, *self.admit(header, batch, is_client=True, now_ms=now_ms))

    def _reads_records(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether the records of a client's batch are looked at, and not its header alone."""
        return (
            self._need_keys
            or self._before_max_ms != LONG_MAX
            or (self._codec is not None and header.compression != self._codec)
            or self._limits_records(header)
            or header.max_timestamp_ms < header.base_timestamp_ms
            or header.max_timestamp_ms - now_ms > self.after_max_ms
        )

    def _limits_records(self, header: BatchHeader) -> bool:
        """Whether each record's size is looked at: as in Kafka, those of compressed batches."""
        return self._record_max < RECORD_BYTES_MAX and header.compression != Compression.NONE

    def admit(
        self,
        header: BatchHeader,
        batch: Records,
        *,
        is_client: bool,
        now_ms: int,
        decompressed_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    ) -> tuple[BatchHeader, Records]:
        """The batch as it is to be stored, and its header: the same objects unless something had to change.

        Raises RecordTooLarge InvalidRecord InvalidTimestamp InvalidProducerEpoch UnsupportedCompressionType
        CorruptRecord.
        """
        base_offset, length, _, _, _, attributes, _, base_ms, max_ms, _, _, _, _ = header
        size = length + LOG_OVERHEAD_BYTES
        if size > self.size_max:
            raise RecordTooLarge(
                f"a batch of {size} bytes for {self._name} is larger than the {self.size_max} bytes that "
                "max.message.bytes allows: send smaller batches or raise it on the topic"
            )
        if is_client:
            if base_offset:
                raise InvalidRecord(
                    f"a client's batch for {self._name} has the base offset {base_offset}; it has to be 0"
                )
            validate_header(header)
            if attributes & LOG_APPEND_TIME_FLAG:
                header, batch = self._with_its_own_times(header, batch)
            if max_ms < base_ms:
                header, batch = _with_true_max_timestamp(batch, decompressed_max)
                max_ms = header.max_timestamp_ms
        if self.needs_more:
            return self._admit_with_more(
                header, batch, is_client=is_client, now_ms=now_ms, decompressed_max=decompressed_max
            )
        if max_ms - now_ms > self.after_max_ms:
            self._validate_timestamps(header, batch, now_ms, decompressed_max)
        return header, batch

    def _admit_with_more(
        self, header: BatchHeader, batch: Records, *, is_client: bool, now_ms: int, decompressed_max: int
    ) -> tuple[BatchHeader, Records]:
        if is_client and self._limits_records(header):
            validate_record_sizes(
                BatchView(batch), record_bytes_max=self._record_max, size_max=decompressed_max
            )
        if self._need_keys and is_client:
            validate_keys(BatchView(batch), size_max=decompressed_max)
        if not self.is_log_append_time:
            self._validate_timestamps(header, batch, now_ms, decompressed_max)
        if self._codec is not None and header.compression != self._codec and not header.is_control:
            batch = recompress(BatchView(batch), self._codec, level=self._level, size_max=decompressed_max)
        if self.is_log_append_time:
            if not isinstance(batch, bytearray):
                batch = bytearray(batch)
            set_log_append_time(batch, 0, timestamp_ms=now_ms)
        return verify_header(batch), batch

    def _with_its_own_times(self, header: BatchHeader, batch: Records) -> tuple[BatchHeader, bytearray]:
        """Clear the flag of a batch that another broker had stamped, as Kafka does."""
        if self.is_log_append_time:
            raise InvalidTimestamp(
                f"a client's batch for {self._name} is marked with log-append time, which this topic's broker sets",
                record_errors=tuple(
                    (index, "the timestamp is another broker's")
                    for index in range(min(header.record_count, RECORD_ERRORS_PER_BATCH_MAX))
                ),
            )
        mended = bytearray(batch)
        clear_log_append_time(mended, 0)
        return verify_header(mended), mended

    def _validate_timestamps(
        self, header: BatchHeader, batch: Records, now_ms: int, decompressed_max: int
    ) -> None:
        validate_timestamps(
            BatchView(batch),
            header,
            now_ms=now_ms,
            before_max_ms=self._before_max_ms,
            after_max_ms=self.after_max_ms,
            size_max=decompressed_max,
        )


def _with_true_max_timestamp(batch: Records, decompressed_max: int) -> tuple[BatchHeader, bytearray]:
    """Some old clients leave the max timestamp unset, which would hide the records from look-ups by time."""
    mended = bytearray(batch)
    set_max_timestamp(
        mended, 0, timestamp_ms=newest_timestamp_ms(BatchView(mended), size_max=decompressed_max)
    )
    return verify_header(mended), mended


def verify_headers(records: memoryview) -> list[tuple[int, BatchHeader]]:
    """(position, header) of every batch in `records`, each checked. Raises CorruptRecord."""
    found = []
    position = 0
    while position < len(records):
        header = verify_header(records, position)
        found.append((position, header))
        position += header.size_bytes
    return found


def require_fit(size_bytes: int, segment_bytes: int, topic_partition: TopicPartition) -> None:
    """Raises RecordListTooLarge when an append is larger than a segment may become."""
    if size_bytes > segment_bytes:
        raise RecordListTooLarge(
            f"{size_bytes} bytes for {topic_partition} do not fit a segment of {segment_bytes} bytes "
            "(segment.bytes): send less at once or raise it"
        )
