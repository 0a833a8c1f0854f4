"""The checks of a batch that a client sent, before a broker appends it.

Length, magic and CRC come first (`batch.verify_header`), then contradictions in the header (`batch.validate_header`).
The checks here need the records, or all bytes of the request.

Kafka walks through every record, decompressing them. Here that happens only where the answer depends on it. These are
compacted topics, where every record needs a key, and topics with a lower bound for timestamps. So are topics with a
bound for the size of a record. Elsewhere a batch may have a right header and wrong records. It harms the consumers of
that topic alone: the broker never reads records by the header's word alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from odradek.foundation.errors import CorruptRecord, InvalidRecord, InvalidTimestamp
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORD_ERRORS_PER_BATCH_MAX
from odradek.wire.records.batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    BatchView,
    Buffer,
)
from odradek.wire.records.record import readable_payload, record_spans

TIMESTAMP_BOUND_NONE: Final = 2**63 - 1
# What follows the length field in the smallest message there ever was (magic 0).
_OLDEST_MESSAGE_BYTES_MIN: Final = 14


def validate_timestamps(
    batch: BatchView,
    header: BatchHeader,
    *,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    size_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
) -> None:
    """Check that no record is more than `before_max_ms` older or `after_max_ms` newer than `now_ms`.

    For topics with create time only. The upper bound needs the header alone; the lower one, when it is
    not `TIMESTAMP_BOUND_NONE`, reads the records. A timestamp of -1 (none) is allowed. Raises
    InvalidTimestamp.
    """
    lowest_ms = now_ms - before_max_ms if before_max_ms < min(now_ms, TIMESTAMP_BOUND_NONE) else -1
    if header.max_timestamp_ms - now_ms > after_max_ms:
        raise InvalidTimestamp(
            f"a record's timestamp {header.max_timestamp_ms} is more than {after_max_ms} ms ahead of the broker's"
            f" clock, {now_ms}; see message.timestamp.after.max.ms",
            record_errors=_outside(
                batch, header, lowest_ms=lowest_ms, highest_ms=now_ms + after_max_ms, size_max=size_max
            ),
        )
    if lowest_ms < 0:
        return
    outside = _outside(batch, header, lowest_ms=lowest_ms, highest_ms=TIMESTAMP_BOUND_NONE, size_max=size_max)
    if outside:
        raise InvalidTimestamp(
            f"records of a batch are more than {before_max_ms} ms behind the broker's clock, {now_ms}; see"
            " message.timestamp.before.max.ms",
            record_errors=outside,
        )


def _outside(
    batch: BatchView, header: BatchHeader, *, lowest_ms: int, highest_ms: int, size_max: int
) -> tuple[tuple[int, str], ...]:
    """The records whose timestamps lie outside of both bounds, each with why."""
    base_ms = header.base_timestamp_ms

    def find_wrong_timestamps() -> Iterator[tuple[int, str]]:
        payload = readable_payload(batch, size_max=size_max)
        for index, span in enumerate(record_spans(payload, record_count=header.record_count)):
            timestamp_ms = base_ms + span.timestamp_delta_ms
            if timestamp_ms > highest_ms or (timestamp_ms < lowest_ms and timestamp_ms != -1):
                yield index, f"the timestamp {timestamp_ms} is outside of what the topic allows"

    return tuple(islice(find_wrong_timestamps(), RECORD_ERRORS_PER_BATCH_MAX))


def validate_keys(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> None:
    """Walk through all records: each has a key, as a compacted topic needs, and follows the one before.

    Raises InvalidRecord for a record without a key and for offsets that jump, CorruptRecord for damage.
    """
    payload = readable_payload(batch, size_max=size_max)
    without_key: list[int] = []
    for expected, span in enumerate(record_spans(payload, record_count=batch.record_count)):
        if span.offset_delta != expected:
            raise InvalidRecord(
                f"record {expected} of a client's batch has the offset delta {span.offset_delta};"
                " they must rise by one"
            )
        if span.key_start < 0 and len(without_key) < RECORD_ERRORS_PER_BATCH_MAX:
            without_key.append(expected)
    if without_key:
        raise InvalidRecord(
            f"record {without_key[0]} of the batch has no key; a topic with cleanup.policy=compact needs one",
            record_errors=tuple((index, "the record has no key") for index in without_key),
        )


def validate_record_sizes(
    batch: BatchView, *, record_bytes_max: int, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> None:
    """Walk through all records: none is larger than `record_bytes_max` once decompressed.

    Raises InvalidRecord for one that is, CorruptRecord for damage.
    """
    payload = readable_payload(batch, size_max=size_max)
    for index, span in enumerate(record_spans(payload, record_count=batch.record_count)):
        if _bytes_behind_length(span.end - span.start) > record_bytes_max:
            raise InvalidRecord(
                f"record {index} of the batch is larger than the {record_bytes_max} bytes that"
                " max.decompressed.message.bytes allows; send smaller records or raise it on the topic"
            )


def _bytes_behind_length(size: int) -> int:
    """The bytes of a record of `size` bytes without those of its length, a varint, as Kafka counts them."""
    return next(size - of_length for of_length in range(1, 6) if (size - of_length) * 2 < 1 << 7 * of_length)


def single_batch_bytes(records: Buffer) -> int:
    """The size of the one batch that a client may send for a partition (produce version 3 and newer).

    What follows it, too short to be another one, is left out, as Kafka does. Raises InvalidRecord for no whole batch,
    one of an older format, or more than one. Raises CorruptRecord for a size or format that never existed.
    """
    size = _next_batch_end(records, 0)
    if size is None:
        raise InvalidRecord("a produce request holds no whole batch for a partition; send one")
    if records[MAGIC_POSITION] != MAGIC:
        raise InvalidRecord(
            f"a produce request holds a batch of magic {records[MAGIC_POSITION]}; from version 3 on it has to be 2"
        )
    if _next_batch_end(records, size) is not None:
        raise InvalidRecord("a produce request holds several batches for a partition; send one")
    return size


def _next_batch_end(buffer: Buffer, position: int) -> int | None:
    """Where the batch or message at `position` ends; None when not all of it is there."""
    left = len(buffer) - position
    if left < LOG_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(buffer[position + 8 : position + LOG_OVERHEAD_BYTES], "big", signed=True)
    if length < _OLDEST_MESSAGE_BYTES_MIN:
        raise CorruptRecord(
            f"the batch at byte {position} gives its length as {length} bytes, less than any needs"
        )
    if left <= MAGIC_POSITION:
        return None
    magic = buffer[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptRecord(f"the batch at byte {position} has magic {magic}; 0 to 2 are known")
    end = position + LOG_OVERHEAD_BYTES + length
    return end if end <= len(buffer) else None
