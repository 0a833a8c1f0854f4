"""All records of a batch at once, for readers of whole topics: each step here runs once per record.

The layout is `record`'s. The loops read a record of the usual shape, with lengths of one or two bytes, without a call.
A record of another shape is read by `record`, which also says what is wrong with one that is damaged.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.wire.records.batch import BatchView, TimestampType
from odradek.wire.records.record import (
    Record,
    decompress_payload,
    read_headers,
    read_span,
    records,
    skip_headers,
)

# Two bytes of an integer, put together, are below this unless the second one says that a third follows.
_THREE_BYTES: Final = 0x4000
_NULL: Final = 1  # the length -1 as it is written
_NEGATIVE: Final = 1  # the bit that every negative length has

_new_tuple = tuple.__new__


def values(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> list[bytes | None]:
    """The value of each record, first to last. Raises CorruptRecord for damage anywhere in the batch."""
    payload = decompress_payload(batch, size_max=size_max)
    found: list[bytes | None] = []
    position = 0
    try:
        for _ in range(batch.record_count):
            start = position
            size = payload[position]
            position += 1
            if size >= 0x80:
                size = size & 0x7F | payload[position] << 7
                position += 1
            end = position + (size >> 1)
            position += 1  # attributes
            while payload[position] >= 0x80:  # timestamp delta
                position += 1
            position += 1
            while payload[position] >= 0x80:  # offset delta
                position += 1
            position += 1
            key_size = payload[position]
            position += 1
            if key_size >= 0x80:
                key_size = key_size & 0x7F | payload[position] << 7
                position += 1
            if key_size == _NULL:
                key_size = 0
            else:
                position += key_size >> 1
            value_size = payload[position]
            position += 1
            if value_size >= 0x80:
                value_size = value_size & 0x7F | payload[position] << 7
                position += 1
            stop = position + (value_size >> 1)
            sizes = size | key_size | value_size
            if sizes >= _THREE_BYTES or sizes & _NEGATIVE or stop >= end:
                _, end, _, _, _, _, position, stop, _ = read_span(payload, start)
                found.append(payload[position:stop] if position >= 0 else None)
            else:
                if payload[stop] or stop + 1 != end:
                    skip_headers(payload, stop, end)
                found.append(payload[position:stop])
            position = end
    except IndexError:
        position = -1
    if position != len(payload):
        # Damaged, or a large record that led astray before it was read with care.
        return [record.value for record in records(batch, size_max=size_max)]
    return found


def all_records(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> list[Record]:
    """The batch's records, as `record.records` gives them. Raises CorruptRecord for damage anywhere in the batch."""
    header = batch.header
    payload = decompress_payload(batch, size_max=size_max)
    found = _records(payload, header.record_count, header.base_offset, header.base_timestamp_ms)
    if found is None:
        return list(records(batch, size_max=size_max))
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        append_time_ms = header.max_timestamp_ms
        return [
            _new_tuple(Record, (offset, append_time_ms, key, value, headers))
            for offset, _, key, value, headers in found
        ]
    return found


def _records(payload: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> list[Record] | None:
    """The records, with their producers' times; None where they do not add up, as of a damaged batch."""
    found: list[Record] = []
    add, new = found.append, _new_tuple
    position = 0
    try:
        for _ in range(count):
            start = position
            size = payload[position]
            position += 1
            if size >= 0x80:
                size = size & 0x7F | payload[position] << 7
                position += 1
            end = position + (size >> 1)
            timestamp = payload[position + 1]
            position += 2
            if timestamp >= 0x80:
                timestamp = timestamp & 0x7F | payload[position] << 7
                position += 1
            offset = payload[position]
            position += 1
            if offset >= 0x80:
                offset = offset & 0x7F | payload[position] << 7
                position += 1
            key_size = payload[position]
            position += 1
            if key_size >= 0x80:
                key_size = key_size & 0x7F | payload[position] << 7
                position += 1
            key = None
            if key_size == _NULL:
                key_size = 0
            else:
                key_start = position
                position += key_size >> 1
                key = payload[key_start:position]
            value_size = payload[position]
            position += 1
            if value_size >= 0x80:
                value_size = value_size & 0x7F | payload[position] << 7
                position += 1
            stop = position + (value_size >> 1)
            sizes = size | offset | key_size | value_size
            if (sizes | timestamp) >= _THREE_BYTES or sizes & _NEGATIVE or stop >= end:
                record, end = _careful_record(payload, start, base_offset, base_timestamp_ms)
                add(record)
            else:
                headers = () if payload[stop] == 0 and stop + 1 == end else read_headers(payload, stop, end)
                timestamp = base_timestamp_ms + ((timestamp >> 1) ^ -(timestamp & 1))
                add(
                    new(
                        Record, (base_offset + (offset >> 1), timestamp, key, payload[position:stop], headers)
                    )
                )
            position = end
    except IndexError:
        return None
    return found if position == len(payload) else None


def _careful_record(
    payload: bytes, start: int, base_offset: int, base_timestamp_ms: int
) -> tuple[Record, int]:
    """A record of any shape, and where it ends."""
    _, end, timestamp_delta_ms, offset_delta, key_start, key_end, value_start, value_end, headers_start = (
        read_span(payload, start)
    )
    key = payload[key_start:key_end] if key_start >= 0 else None
    value = payload[value_start:value_end] if value_start >= 0 else None
    headers = read_headers(payload, headers_start, end)
    return Record(
        base_offset + offset_delta, base_timestamp_ms + timestamp_delta_ms, key, value, headers
    ), end
