"""The outcome for one batch whose records were judged: the bytes to write in its place.

A batch that changes keeps its base offset, its last offset delta, its sequence numbers, its epochs, its flags and its
codec. So offsets and sequences never change. A batch that has to stay without records is its header alone.

The first round that meets a tombstone, or a marker whose data is gone, gives the batch a delete horizon (KIP-534). The
base timestamp becomes the time from which it may be removed, attribute bit 6 says so, and the records' deltas are
counted from it. Readers add base timestamp and delta, so the records' times stay what they were.
"""

from __future__ import annotations

from odradek.storage.compaction.offset_map import Kept
from odradek.storage.compaction.reading import StoredBatch
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
)
from odradek.wire.records.builder import frame
from odradek.wire.records.compression import compress
from odradek.wire.records.record import record_spans
from odradek.wire.records.varint import decode_varint, decode_varlong, encode_varint


def rewritten(batch: StoredBatch, kept: Kept, *, horizon_ms: int | None) -> bytes | bytearray | memoryview:
    """The batch with the records that stay, of which there is one at least; `horizon_ms` is a horizon to set.

    Raises CorruptRecord.
    """
    if kept.payload is None and horizon_ms is None:
        return batch.raw
    header = batch.header
    payload = batch.payload if kept.payload is None else kept.payload
    attributes = header.attributes & ~COMPRESSION_MASK | batch.codec
    max_timestamp_ms = header.max_timestamp_ms
    if kept.payload is not None and not attributes & LOG_APPEND_TIME_FLAG:
        max_timestamp_ms = kept.max_timestamp_ms
    header = header._replace(
        attributes=attributes, record_count=kept.record_count, max_timestamp_ms=max_timestamp_ms
    )
    if horizon_ms is not None:
        payload = _with_base_timestamp(bytes(payload), header, horizon_ms)
        header = header._replace(attributes=attributes | DELETE_HORIZON_FLAG, base_timestamp_ms=horizon_ms)
    return frame(header, compress(payload, batch.codec))


def emptied(batch: StoredBatch) -> bytearray:
    """The batch without its records."""
    header = batch.header
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return frame(header._replace(attributes=attributes, base_timestamp_ms=-1, record_count=0), b"")


def _with_base_timestamp(payload: bytes, header: BatchHeader, base_timestamp_ms: int) -> bytes:
    """The records with their timestamp deltas counted from another base timestamp."""
    parts: list[bytes] = []
    shift = header.base_timestamp_ms - base_timestamp_ms
    for span in record_spans(payload, record_count=header.record_count):
        _, position = decode_varint(payload, span.start)
        _, after = decode_varlong(payload, position + 1)
        body = payload[position : position + 1] + encode_varint(span.timestamp_delta_ms + shift)
        size = len(body) + span.end - after
        parts += (encode_varint(size), body, payload[after : span.end])
    return b"".join(parts)
