"""What a broker checks of a batch that a client sent, before it takes it.

Length, magic and CRC come first (`batch.verified_header`); the CRC is the client's own, so what it covers
arrived as it was sent, but the client may have sent nonsense. The header is checked for contradictions as
Kafka does. Kafka also walks through every record, decompressing them. Here that happens only where the answer
depends on it: on a compacted topic (every record needs a key) and under a lower bound for timestamps.
Otherwise a batch whose header is right and whose records are not harms the consumers of the topic that its
producer may write to, and nobody else: the broker itself never reads records by the header's word alone.
`validate_records` is that walk, for who wants it always.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import CorruptRecord, InvalidRecord, InvalidTimestamp
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    BatchView,
)
from odradek.records.compression import Compression
from odradek.records.record import decompressed_payload, record_spans

TIMESTAMP_BOUND_NONE: Final = 2**63 - 1
_FORBIDDEN_FLAGS: Final = CONTROL_FLAG | LOG_APPEND_TIME_FLAG
_RECORD_BYTES_MIN: Final = 7


def validate_header(header: BatchHeader) -> None:
    """Check a client's batch for contradictions in its header.

    Raises InvalidRecord, or CorruptRecord for an unknown codec.

    The base offset may be anything: it is about to be replaced.
    """
    (
        _,
        length,
        _,
        _,
        _,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = header
    if count <= 0 or last_offset_delta != count - 1:
        raise InvalidRecord(
            f"a batch of {count} records has the last offset delta {last_offset_delta};"
            " a client's batch holds one record or more, each one offset further"
        )
    if attributes & _FORBIDDEN_FLAGS:
        if attributes & CONTROL_FLAG:
            raise InvalidRecord("a client's batch is marked as control records, which only brokers write")
        raise InvalidRecord("a client's batch is marked with log-append time, which only brokers set")
    codec = attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise CorruptRecord(f"a batch names the compression codec {codec}; 0 to 4 are known")
    if codec == 0 and count * _RECORD_BYTES_MIN > length:
        raise InvalidRecord(f"a batch claims {count} records in {length} bytes, fewer than they need")
    if producer_id >= 0:
        if base_sequence < 0 or producer_epoch < 0:
            raise InvalidRecord(
                f"a batch of producer {producer_id} has the epoch {producer_epoch} and the base sequence"
                f" {base_sequence}; neither may be negative"
            )
    elif producer_id != -1:
        raise InvalidRecord(f"a batch has the producer id {producer_id}; -1 is the lowest")
    elif attributes & 0x10:
        raise InvalidRecord("a batch is marked as transactional and has no producer id")


def validate_timestamps(
    batch: BatchView, header: BatchHeader, *, now_ms: int, before_max_ms: int, after_max_ms: int
) -> None:
    """Check that no record is more than `before_max_ms` older or `after_max_ms` newer than `now_ms`.

    For topics with create time only. The upper bound needs the header alone; the lower one, when it is
    not `TIMESTAMP_BOUND_NONE`, reads the records. A timestamp of -1 (none) is allowed. Raises
    InvalidTimestamp.
    """
    newest_ms = header.max_timestamp_ms
    if newest_ms - now_ms > after_max_ms:
        raise InvalidTimestamp(
            f"a record's timestamp {newest_ms} is more than {after_max_ms} ms ahead of the broker's clock,"
            f" {now_ms};"
            " see message.timestamp.after.max.ms"
        )
    if before_max_ms >= TIMESTAMP_BOUND_NONE or now_ms - before_max_ms <= 0:
        return
    oldest_allowed_ms = now_ms - before_max_ms
    base_timestamp_ms = header.base_timestamp_ms
    for span in record_spans(decompressed_payload(batch), record_count=header.record_count):
        timestamp_ms = base_timestamp_ms + span.timestamp_delta_ms
        if timestamp_ms < oldest_allowed_ms and timestamp_ms != -1:
            raise InvalidTimestamp(
                f"a record's timestamp {timestamp_ms} is more than {before_max_ms} ms behind the broker's"
                f" clock, {now_ms}; see message.timestamp.before.max.ms"
            )


def validate_keys(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> None:
    """Check that every record has a key, as a compacted topic needs. Reads the records.

    Raises InvalidRecord for a record without one, CorruptRecord for damage.
    """
    validate_records(batch, need_keys=True, size_max=size_max)


def validate_records(
    batch: BatchView, *, need_keys: bool = False, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> None:
    """Walk through all records: whole, as many as the header says, each one offset after the other.

    Raises CorruptRecord for damage, InvalidRecord for offsets that jump or, with `need_keys`, a missing key.
    """
    payload = decompressed_payload(batch, size_max=size_max)
    for expected, span in enumerate(record_spans(payload, record_count=batch.record_count)):
        if span.offset_delta != expected:
            raise InvalidRecord(
                f"record {expected} of a client's batch has the offset delta {span.offset_delta};"
                " they must rise by one"
            )
        if need_keys and span.key_start < 0:
            raise InvalidRecord(
                f"record {expected} of the batch has no key; a topic with cleanup.policy=compact needs one"
            )


def validate_size(header: BatchHeader, *, records_size_bytes: int) -> None:
    """Check that a client sent exactly one batch: Kafka takes no more per partition since produce version 3.

    Raises InvalidRecord when bytes follow the batch.
    """
    if header.size_bytes != records_size_bytes:
        raise InvalidRecord(
            f"a produce request holds {records_size_bytes} bytes for a partition and its first batch has"
            f" {max(header.size_bytes, HEADER_BYTES)}; send one batch per partition"
        )
