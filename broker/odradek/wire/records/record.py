"""Records inside a batch, read one after the other as they are asked for.

    varint  length of what follows
    int8    attributes, unused
    varlong timestamp delta to the batch's base timestamp
    varint  offset delta to the batch's base offset
    varint  key length, -1 for null; key
    varint  value length, -1 for null; value
    varint  header count; each: varint key length, key (UTF-8), varint value length or -1, value

Every length is checked against the record's end before it is used: no bytes raise anything but
CorruptRecord. Produce and fetch do not use this module; consumers, tools, the coordinator's own topics and the check
for keys do. `batch` checks the CRC.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import DECOMPRESSED_BYTES_OF_MALLOC_MAX
from odradek.wire.records.batch import MAGIC, BatchView, TimestampType
from odradek.wire.records.compression import decompress
from odradek.wire.records.varint import decode_varint

# Named tuples are made by this where there is one per record: their own constructor takes three times as long.
_new_tuple = tuple.__new__

Headers = tuple[tuple[str, bytes | None], ...]
Payload = bytes | memoryview


class Record(NamedTuple):
    """One record. `key` and `value` are None for null; `headers` keeps order and repeated names."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordSpan(NamedTuple):
    """Where the parts of a record lie in the payload. A key or value whose start is -1 is null."""

    start: int
    end: int
    timestamp_delta_ms: int
    offset_delta: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    headers_start: int


def decompress_payload(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> bytes:
    """The batch's records as plain bytes. Raises CorruptRecord for damage or more than `size_max` of them."""
    return bytes(decompress(batch.payload, batch.compression, size_max=size_max))


def readable_payload(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> bytes | memoryview:
    """As `decompress_payload`, for `record_spans`: many bytes are not copied, which would hold up all threads."""
    payload = decompress(batch.payload, batch.compression, size_max=size_max)
    return bytes(payload) if len(payload) <= DECOMPRESSED_BYTES_OF_MALLOC_MAX else memoryview(payload)


def records(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> Iterator[Record]:
    """The batch's records with their offsets and times, decompressed when need be.

    Raises CorruptRecord when it meets damage; the records before it have been yielded by then.
    """
    header = batch.header
    if header.magic != MAGIC:
        raise CorruptRecord(
            f"a batch of magic {header.magic} is read through the legacy formats, not as magic 2"
        )
    payload = decompress_payload(batch, size_max=size_max)
    base_offset = header.base_offset
    base_timestamp_ms = header.base_timestamp_ms
    append_time_ms = (
        header.max_timestamp_ms if header.timestamp_type == TimestampType.LOG_APPEND_TIME else None
    )
    for span in record_spans(payload, record_count=header.record_count):
        _, end, delta_ms, offset_delta, key_start, key_end, value_start, value_end, headers_start = span
        yield _new_tuple(
            Record,
            (
                base_offset + offset_delta,
                base_timestamp_ms + delta_ms if append_time_ms is None else append_time_ms,
                payload[key_start:key_end] if key_start >= 0 else None,
                payload[value_start:value_end] if value_start >= 0 else None,
                () if payload[headers_start] == 0 else read_headers(payload, headers_start, end),
            ),
        )


def newest_timestamp_ms(batch: BatchView, *, size_max: int = DECOMPRESSED_BATCH_BYTES_MAX) -> int:
    """The largest timestamp among the records, read from them; -1 without any. Raises CorruptRecord."""
    header = batch.header
    payload = readable_payload(batch, size_max=size_max)
    spans = record_spans(payload, record_count=header.record_count)
    return max((header.base_timestamp_ms + span[2] for span in spans), default=-1)


def record_spans(payload: Payload, *, record_count: int) -> Iterator[RecordSpan]:
    """Where each record lies, first to last; keys, values and headers are not copied.

    Raises CorruptRecord when a record is truncated or contradicts itself, or when bytes remain after the last one.
    """
    if record_count < 0:
        raise CorruptRecord(f"a batch gives its number of records as {record_count}")
    position = 0
    for index in range(record_count):
        try:
            span = read_span(payload, position)
        except IndexError:
            raise CorruptRecord(
                f"record {index} of {record_count} at byte {position} runs past the end of the batch's"
                f" {len(payload)} bytes of records"
            ) from None
        yield span
        position = span[1]
    if position != len(payload):
        raise CorruptRecord(
            f"{len(payload) - position} bytes remain after the last of {record_count} records in a batch"
        )


def read_span(payload: Payload, position: int) -> RecordSpan:
    """One record's span. Raises CorruptRecord, and IndexError for an index past the payload: callers translate it."""
    start = position
    byte = payload[position]
    position += 1
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, position = _long_varint(payload, position - 1, 5)
    end = position + size
    if size < 0 or end > len(payload):
        raise CorruptRecord(
            f"the record at byte {start} gives its size as {size} bytes"
            f" and {len(payload) - position} are left"
        )
    position += 1  # attributes
    byte = payload[position]
    position += 1
    if byte < 0x80:
        timestamp_delta_ms = (byte >> 1) ^ -(byte & 1)
    else:
        timestamp_delta_ms, position = _long_varint(payload, position - 1, 10)
    byte = payload[position]
    position += 1
    if byte < 0x80:
        offset_delta = (byte >> 1) ^ -(byte & 1)
    else:
        offset_delta, position = _long_varint(payload, position - 1, 5)
    key_start, key_end, position = _read_bytes(payload, position, end)
    value_start, value_end, position = _read_bytes(payload, position, end)
    # Without headers a zero is the last byte; anything else is walked through so that a bad header shows
    # here.
    if position >= end:
        raise CorruptRecord(f"the record at byte {start} ends before its number of headers")
    if payload[position] != 0:
        skip_headers(payload, position, end)
    elif position + 1 != end:
        raise CorruptRecord(f"the record at byte {start} has {end - position - 1} bytes after its last field")
    return _new_tuple(
        RecordSpan,
        (start, end, timestamp_delta_ms, offset_delta, key_start, key_end, value_start, value_end, position),
    )


def _read_bytes(payload: Payload, position: int, end: int) -> tuple[int, int, int]:
    """Start and end of a length-prefixed run of bytes (-1, -1 for null), and the position after it."""
    byte = payload[position]
    position += 1
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, position = _long_varint(payload, position - 1, 5)
    if size < 0:
        if size != -1:
            raise CorruptRecord(f"a length of {size} bytes at byte {position}; -1 is the lowest")
        return -1, -1, position
    stop = position + size
    if stop > end:
        raise CorruptRecord(
            f"a field of {size} bytes at byte {position} runs past its record's end at byte {end}"
        )
    return position, stop, stop


def _long_varint(payload: Payload, position: int, bytes_max: int) -> tuple[int, int]:
    """An integer whose first byte says that more follow; two bytes, the usual case, go without a loop."""
    second = payload[position + 1]
    if second < 0x80:
        value = payload[position] & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), position + 2
    value = shift = 0
    for index in range(position, position + bytes_max):
        byte = payload[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> (32 if bytes_max == 5 else 64):
                break
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise CorruptRecord(f"a variable-length integer at byte {position} is longer than it may be")


def skip_headers(payload: Payload, position: int, end: int) -> None:
    """Check the headers whose count is at `position`. Raises CorruptRecord."""
    for _ in _header_spans(payload, position, end):
        pass


def _header_spans(payload: Payload, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    count, position = decode_varint(payload, position)
    # A header takes two bytes at least. A larger count is false, and must not become a long loop.
    if count < 0 or count > (end - position) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {max(end - position, 0)} bytes")
    for _ in range(count):
        key_start, key_end, position = _read_bytes(payload, position, end)
        if key_start < 0:
            raise CorruptRecord(f"a record header before byte {position} has a null name")
        value_start, value_end, position = _read_bytes(payload, position, end)
        yield key_start, key_end, value_start, value_end
    if position != end:
        raise CorruptRecord(f"a record ends at byte {end} and its headers at byte {position}")


def read_headers(payload: bytes, position: int, end: int) -> Headers:
    """The headers whose count is at `position`. Names that are not UTF-8 get replacement characters."""
    return tuple(
        (
            payload[key_start:key_end].decode("utf-8", "replace"),
            payload[value_start:value_end] if value_start >= 0 else None,
        )
        for key_start, key_end, value_start, value_end in _header_spans(payload, position, end)
    )
