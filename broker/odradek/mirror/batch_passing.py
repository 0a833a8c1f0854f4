"""Turns a batch of the source into a batch of the target: pure, bytes in and bytes out.

Most batches pass unopened. The producer's id, epoch and sequence and the bit for transactions are written into the
header; the records stay as they are, compressed or not. The CRC is patched: CRC-32C is linear, so the difference of two
batches of one length depends only on the bytes that differ. A batch that was damaged on the way keeps a wrong CRC, and
the target refuses it. A CRC computed again would hide the damage.

A batch is opened, and its records written again, where the target would refuse it or change what readers see:

    reason            why
    gaps              compaction removed records: the target counts offsets without gaps
    old-format        magic 0 or 1
    delete-horizon    the base timestamp is not a time (KIP-534)
    log-append-time   the target removes that bit, and readers would see the producers' times
    start-inside      the mirror begins at an offset inside of the batch
    too-large         larger than the target's max.message.bytes
    compression       the target's compression.type asks for another codec

An opened batch becomes one batch or, where it is too large, several. A single record that is too large stays one batch,
and the target refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from struct import Struct
from typing import Final, NamedTuple

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    CRC_RANGE_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    BatchView,
    read_header,
)
from odradek.wire.records.builder import BatchBuilder
from odradek.wire.records.checksum import crc32c
from odradek.wire.records.compression import Compression
from odradek.wire.records.legacy import messages
from odradek.wire.records.record import Record, records

_ZEROS: Final = bytes(64 * 1024)
_ALL_BITS: Final = 0xFFFFFFFF
# Base offset 0, leader epoch -1: the target sets both, outside of the CRC.
_FRONT: Final = Struct(">qiibI")
_BASE_OFFSET: Final = 0
_LEADER_EPOCH: Final = -1
_ATTRIBUTES: Final = Struct(">h")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_POSITION: Final = 43
_OLD_ATTRIBUTES_POSITION: Final = 17

assert _FRONT.size == CRC_RANGE_POSITION


class OpenReason(StrEnum):
    """Why a batch is opened. The values are those of the metric's label."""

    GAPS = "gaps"
    OLD_FORMAT = "old-format"
    DELETE_HORIZON = "delete-horizon"
    LOG_APPEND_TIME = "log-append-time"
    START_INSIDE = "start-inside"
    TOO_LARGE = "too-large"
    COMPRESSION = "compression"


class TargetRules(NamedTuple):
    """The batches that a topic of the target takes: those of this size, and of this codec (None for any)."""

    batch_bytes_max: int
    compression: Compression | None = None


class ReadyBatch(NamedTuple):
    """A batch for the target, but for its producer. `data` begins with its header, whose CRC is right for it, or is as
    wrong as it was at the source.
    """

    data: memoryview
    source_first_offset: int
    source_end_offset: int
    record_count: int
    is_contiguous: bool
    max_timestamp_ms: int
    leader_epoch: int
    opened_because: OpenReason | None


class ProducerStamp(NamedTuple):
    """The identity of the writer, at one batch."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


def reason_to_open(header: BatchHeader, *, position: int, rules: TargetRules) -> OpenReason | None:
    """Why a batch of magic 2 cannot pass as it is; None if it can."""
    if header.base_offset < position:
        return OpenReason.START_INSIDE
    if header.record_count != header.last_offset_delta + 1:
        return OpenReason.GAPS
    if header.attributes & DELETE_HORIZON_FLAG:
        return OpenReason.DELETE_HORIZON
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return OpenReason.LOG_APPEND_TIME
    if header.size_bytes > rules.batch_bytes_max:
        return OpenReason.TOO_LARGE
    if rules.compression is not None and header.compression != rules.compression:
        return OpenReason.COMPRESSION
    return None


def ready_batches(data: memoryview, *, position: int, rules: TargetRules) -> list[ReadyBatch]:
    """One batch of the source, which is `data`, as batches of the target: of the records from `position` on.

    None for a batch without such records. Raises CorruptRecord for damage in a batch that has to be opened.
    """
    if data[MAGIC_POSITION] < MAGIC:
        found = list(messages(data))
        return _write_again(
            found,
            position=position,
            end_offset=found[-1].offset + 1,
            leader_epoch=-1,
            codec=Compression(data[_OLD_ATTRIBUTES_POSITION] & COMPRESSION_MASK),
            rules=rules,
            reason=OpenReason.OLD_FORMAT,
        )
    header = read_header(data)
    if header.last_offset < position or not header.record_count:
        return []
    reason = reason_to_open(header, position=position, rules=rules)
    if reason is None:
        return [
            ReadyBatch(
                data=data,
                source_first_offset=header.base_offset,
                source_end_offset=header.last_offset + 1,
                record_count=header.record_count,
                is_contiguous=True,
                max_timestamp_ms=header.max_timestamp_ms,
                leader_epoch=header.leader_epoch,
                opened_because=None,
            )
        ]
    view = BatchView(data)
    view.verify()
    return _write_again(
        list(records(view)),
        position=position,
        end_offset=header.last_offset + 1,
        leader_epoch=header.leader_epoch,
        codec=header.compression,
        rules=rules,
        reason=reason,
    )


def stamp_batch(data: memoryview, stamp: ProducerStamp) -> bytearray:
    """The batch with its producer, for a Produce request. `data` itself stays as it is."""
    batch = bytearray(data)
    old = bytes(data[CRC_RANGE_POSITION:HEADER_BYTES])
    header = read_header(data)
    attributes = header.attributes & ~TRANSACTIONAL_FLAG
    if stamp.is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    _ATTRIBUTES.pack_into(batch, CRC_RANGE_POSITION, attributes)
    _PRODUCER.pack_into(
        batch, _PRODUCER_POSITION, stamp.producer_id, stamp.producer_epoch, stamp.base_sequence
    )
    changed = batch[CRC_RANGE_POSITION:HEADER_BYTES]
    crc = patch_crc(header.crc, old=old, new=changed, bytes_after=len(data) - HEADER_BYTES)
    _FRONT.pack_into(batch, 0, _BASE_OFFSET, header.batch_length, _LEADER_EPOCH, MAGIC, crc)
    return batch


def patch_crc(crc: int, *, old: bytes, new: bytes | bytearray, bytes_after: int) -> int:
    """The CRC-32C of a message after `old` in it became `new`, with `bytes_after` unchanged bytes behind them.

    The bytes before do not matter. The result is wrong by as much as `crc` is.
    """
    difference = (int.from_bytes(old, "big") ^ int.from_bytes(new, "big")).to_bytes(len(old), "big")
    # Without the inversion of all bits before and after, the CRC of a sum is the sum of the CRCs.
    state = crc32c(difference, _ALL_BITS) ^ _ALL_BITS
    return crc ^ _shift_crc(state, bytes_after)


def _shift_crc(state: int, count: int) -> int:
    """The CRC's state after `count` bytes of zero. Their CRC is computed as fast as memory in the cache is read."""
    value = state ^ _ALL_BITS
    while count > len(_ZEROS):
        value = crc32c(_ZEROS, value)
        count -= len(_ZEROS)
    return crc32c(memoryview(_ZEROS)[:count], value) ^ _ALL_BITS


def _write_again(
    found: Sequence[Record],
    *,
    position: int,
    end_offset: int,
    leader_epoch: int,
    codec: Compression,
    rules: TargetRules,
    reason: OpenReason,
) -> list[ReadyBatch]:
    """Records written again, from `position` on, in batches that the target takes."""
    kept = [record for record in found if record.offset >= position]
    if not kept:
        return []
    parts = _fitting(
        kept, rules.compression if rules.compression is not None else codec, rules.batch_bytes_max
    )
    ends = [part[0].offset for part, _ in parts[1:]] + [end_offset]
    return [
        ReadyBatch(
            data=memoryview(data),
            source_first_offset=part[0].offset,
            source_end_offset=end,
            record_count=len(part),
            is_contiguous=part[-1].offset - part[0].offset == len(part) - 1,
            max_timestamp_ms=max(record.timestamp_ms for record in part),
            leader_epoch=leader_epoch,
            opened_because=reason,
        )
        for (part, data), end in zip(parts, ends, strict=True)
    ]


def _fitting(
    kept: Sequence[Record], codec: Compression, batch_bytes_max: int
) -> list[tuple[Sequence[Record], bytearray]]:
    """The records in as few halves of halves as fit, each with its batch."""
    data = _build_batch(kept, codec)
    if len(data) <= batch_bytes_max or len(kept) == 1:
        return [(kept, data)]
    middle = len(kept) // 2
    return [
        *_fitting(kept[:middle], codec, batch_bytes_max),
        *_fitting(kept[middle:], codec, batch_bytes_max),
    ]


def _build_batch(kept: Iterable[Record], codec: Compression) -> bytearray:
    builder = BatchBuilder()
    for record in kept:
        try:
            builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        except OverflowError as failure:
            raise CorruptRecord(f"the timestamp of offset {record.offset} cannot be") from failure
    return builder.build(compression=codec)
