"""Writes batches: for clients and tools, for the topics that the broker keeps for itself, and for compaction.

A record is given as a tuple `(timestamp_ms, key, value)` or `(timestamp_ms, key, value, headers)`. This is what a
`record.Record` holds after its offset, so `record[1:]` can be written again. What comes out is a `bytearray`, which
`batch.assign` can still write to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    BatchView,
    TimestampType,
    update_crc,
    write_header,
)
from odradek.wire.records.bulk_encoding import encode_records
from odradek.wire.records.compression import Compression, compress, decompress
from odradek.wire.records.varint import encode_varint

RecordHeaders = Sequence[tuple[str, bytes | None]]

# The largest framing of one record: length, attributes, timestamp and offset delta, key, value and header
# counts.
RECORD_OVERHEAD_BYTES_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
_NULL: Final = b"\x01"  # the varint of -1
_SHORT: Final = tuple(bytes((value << 1,)) for value in range(64))  # varints of 0 to 63


def encode_record(
    *,
    timestamp_delta_ms: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: RecordHeaders = (),
) -> bytes:
    """One record as it lies in a batch, its length in front."""
    parts = [
        b"\x00",
        _SHORT[timestamp_delta_ms] if 0 <= timestamp_delta_ms < 64 else encode_varint(timestamp_delta_ms),
        _SHORT[offset_delta] if 0 <= offset_delta < 64 else encode_varint(offset_delta),
    ]
    if key is None:
        parts.append(_NULL)
    else:
        size = len(key)
        parts.append(_SHORT[size] if size < 64 else encode_varint(size))
        parts.append(key)
    if value is None:
        parts.append(_NULL)
    else:
        size = len(value)
        parts.append(_SHORT[size] if size < 64 else encode_varint(size))
        parts.append(value)
    if headers:
        _encode_headers(parts, headers)
    else:
        parts.append(b"\x00")
    body = b"".join(parts)
    size = len(body)
    return (_SHORT[size] if size < 64 else encode_varint(size)) + body


def _encode_headers(parts: list[bytes], headers: RecordHeaders) -> None:
    parts.append(encode_varint(len(headers)))
    for name, value in headers:
        name_bytes = name.encode()
        parts.append(encode_varint(len(name_bytes)))
        parts.append(name_bytes)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)


class BatchBuilder:
    """Collects records until `build` makes a batch of them.

    `payload_bytes` is what they take before compression; `HEADER_BYTES` more is the batch's size then. Not
    for use after `build`.
    """

    __slots__ = (
        "_base_timestamp_ms",
        "_count",
        "_max_timestamp_ms",
        "_next_offset_delta",
        "_parts",
        "payload_bytes",
    )

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # each one record, or many
        self._count = 0
        self._base_timestamp_ms = -1
        self._max_timestamp_ms = -1
        self._next_offset_delta = 0
        self.payload_bytes = 0

    def __len__(self) -> int:
        return self._count

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: RecordHeaders = (),
        *,
        offset_delta: int | None = None,
    ) -> int:
        """Add a record and return its offset delta; without `offset_delta` it follows the one before.

        Raises ValueError when `offset_delta` is not above that of the record before.
        """
        if not self._count:
            self._base_timestamp_ms = timestamp_ms
        if offset_delta is None:
            offset_delta = self._next_offset_delta
        elif offset_delta < self._next_offset_delta:
            raise ValueError(
                f"offset delta {offset_delta} does not rise; at least {self._next_offset_delta} is due"
            )
        encoded = encode_record(
            timestamp_delta_ms=timestamp_ms - self._base_timestamp_ms,
            offset_delta=offset_delta,
            key=key,
            value=value,
            headers=headers,
        )
        self._parts.append(encoded)
        self._count += 1
        self._next_offset_delta = offset_delta + 1
        self.payload_bytes += len(encoded)
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        return offset_delta

    def extend(
        self,
        timestamp_ms: int,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        key: bytes | None = None,
        headers: RecordHeaders = (),
    ) -> None:
        """Add a record for each value, as `append` would, in one piece where no value and none of `keys` is null.

        `keys` has one for each value; without it all have `key`. All have the same headers and timestamp.
        """
        if not values:
            return
        if None in values or (keys is not None and None in keys):
            for index, value in enumerate(values):
                self.append(timestamp_ms, key if keys is None else keys[index], value, headers)
            return
        if not self._count:
            self._base_timestamp_ms = timestamp_ms
        tail: list[bytes] = []
        _encode_headers(tail, headers)
        encoded = encode_records(
            cast(Sequence[bytes], values),
            keys=cast(Sequence[bytes] | None, keys),
            shared_key=_NULL if key is None else encode_varint(len(key)) + key,
            tail=b"".join(tail),
            timestamp_delta_ms=timestamp_ms - self._base_timestamp_ms,
            first_offset_delta=self._next_offset_delta,
        )
        self._parts.append(encoded)
        self._count += len(values)
        self._next_offset_delta += len(values)
        self.payload_bytes += len(encoded)
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)

    def build(
        self,
        *,
        base_offset: int = 0,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        is_control: bool = False,
        is_transactional: bool = False,
        last_offset_delta: int | None = None,
    ) -> bytearray:
        """The whole batch, CRC included.

        `last_offset_delta` may lie beyond the last record, as compaction leaves it.
        With log-append time every record counts as of the largest timestamp that was added.
        """
        if last_offset_delta is None:
            last_offset_delta = max(self._next_offset_delta - 1, 0)
        attributes = int(compression)
        if timestamp_type == TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        if is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        if is_control:
            attributes |= CONTROL_FLAG
        payload = b"".join(self._parts)
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=last_offset_delta,
            base_timestamp_ms=self._base_timestamp_ms,
            max_timestamp_ms=self._max_timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self._count,
        )
        return frame(header, compress(payload, compression, level=compression_level))


def frame(header: BatchHeader, payload: bytes | bytearray | memoryview) -> bytearray:
    """A batch of these fields around stored records; length and CRC are computed."""
    batch = bytearray(HEADER_BYTES)
    batch += payload
    write_header(batch, 0, header._replace(batch_length=len(batch) - LOG_OVERHEAD_BYTES))
    update_crc(batch)
    return batch


def build_batch(records: Iterable[tuple[Any, ...]], **fields: Any) -> bytearray:
    """One batch of `(timestamp_ms, key, value[, headers])` tuples; `fields` are `BatchBuilder.build`'s."""
    builder = BatchBuilder()
    append = builder.append
    for record in records:
        append(*record)
    return builder.build(**fields)


def recompress(
    batch: BatchView,
    compression: Compression,
    *,
    level: int | None = None,
    size_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
) -> bytearray:
    """The same batch under another codec: a topic whose compression.type is not `producer` stores it so.

    Raises CorruptRecord when the records cannot be decompressed within `size_max`.
    """
    header = batch.header
    payload = decompress(batch.payload, header.compression, size_max=size_max)
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    return frame(header._replace(attributes=attributes), compress(payload, compression, level=level))
