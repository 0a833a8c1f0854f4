"""The record batch, version 2, as a view over bytes: nothing is copied and no record is read.

    byte  type    field
    0     int64   base offset               set on append
    8     int32   batch length              bytes after this field
    12    int32   partition leader epoch    set on append
    16    int8    magic                     2
    17    uint32  crc                       CRC-32C of everything from byte 21 on
    21    int16   attributes                bits 0-2 codec, 3 log-append time, 4 transactional, 5 control,
                                            6 delete horizon
    23    int32   last offset delta
    27    int64   base timestamp            ms; the delete horizon when its bit is set
    35    int64   max timestamp             ms
    43    int64   producer id               -1: none
    51    int16   producer epoch            -1: none
    53    int32   base sequence             -1: none
    57    int32   record count
    61            records                   compressed together when the codec says so

`tests/wire/records/test_batch.py` holds this table against the code. Offset and leader epoch lie before the range of
the CRC, so a broker sets them without touching the checksum. Produce and fetch use `read_header` or `verify_header`,
which unpack all fields in one call. `BatchView` serves code that needs one or two fields. `wire.records.record` reads
records, `wire.records.legacy` the formats before 2.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final

from odradek.foundation.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import InvalidProducerEpoch
from odradek.wire.records.checksum import crc32c
from odradek.wire.records.compression import Compression

Buffer = bytes | bytearray | memoryview

MAGIC: Final = 2
HEADER_BYTES: Final = 61
_RECORD_BYTES_MIN: Final = 7
# What every format has at its front: offset and the length of what follows.
LOG_OVERHEAD_BYTES: Final = 12
MAGIC_POSITION: Final = 16
CRC_RANGE_POSITION: Final = 21
_ATTRIBUTES_LOW_POSITION: Final = 22

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

SEQUENCE_MAX: Final = 2**31 - 1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">h")

assert _HEADER.size == HEADER_BYTES

# Produce and fetch make a header by this: the named tuple's own constructor costs as much again as the unpacking.
_new_tuple = tuple.__new__
_unpack_header = _HEADER.unpack_from
_unpack_int32 = _INT32.unpack_from
_pack_int64_into = _INT64.pack_into
_pack_int32_into = _INT32.pack_into


class TimestampType(enum.IntEnum):
    """Whose clock a batch's timestamps come from: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def advance_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` records after `sequence`; after 2^31-1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


class BatchHeader(NamedTuple):
    """All fields of a batch's header, as they are in the bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, or -1 when the batch has none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def compression(self) -> Compression:
        """Raises CorruptRecord for a number that is no codec."""
        return _compression(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return _timestamp_type(self.attributes)


def is_transactional(records: Buffer | None) -> bool:
    """Whether a batch says that it belongs to a transaction; nothing else of it is looked at."""
    return (
        records is not None
        and len(records) > _ATTRIBUTES_LOW_POSITION
        and records[MAGIC_POSITION] == MAGIC
        and records[_ATTRIBUTES_LOW_POSITION] & TRANSACTIONAL_FLAG != 0
    )


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Every field of the header at `position`, unchecked. Raises CorruptRecord when it is truncated."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise _short_header(buffer, position) from None


def verify_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, its length, magic and CRC found right. Raises CorruptRecord otherwise."""
    try:
        fields = _unpack_header(buffer, position)
    except struct.error:
        raise _short_header(buffer, position) from None
    header = _new_tuple(BatchHeader, fields)
    base_offset, length, _, magic, crc, _, _, _, _, _, _, _, _ = fields
    end = position + LOG_OVERHEAD_BYTES + length
    if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD_BYTES or end > len(buffer):
        raise _wrong_frame(header, position=position, size=len(buffer))
    view = buffer if buffer.__class__ is memoryview else memoryview(buffer)
    computed = crc32c(view[position + CRC_RANGE_POSITION : end])
    if computed != crc:
        raise CorruptRecord(
            f"the batch at byte {position} (base offset {base_offset}, {end - position} bytes) has the checksum"
            f" {computed:#010x}, but its header says {crc:#010x}. It was damaged on the way or on disk"
        )
    return header


def validate_header(header: BatchHeader) -> None:
    """Check a client's batch for contradictions in its header, as Kafka does.

    The CRC is the client's own: what it covers arrived as it was sent, but the client may have sent nonsense. The base
    offset may be anything: it is about to be replaced. Raises InvalidRecord, UnsupportedCompressionType for an unknown
    codec, InvalidProducerEpoch for a negative one.
    """
    _, length, _, _, _, attributes, delta, _, _, producer_id, producer_epoch, base_sequence, count = header
    if count <= 0 or delta != count - 1:
        raise InvalidRecord(
            f"a batch of {count} records has the last offset delta {delta};"
            " a client's batch holds one record or more, each one offset further"
        )
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("a client's batch is marked as control records, which only brokers write")
    codec = attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise UnsupportedCompressionType(f"a batch names the compression codec {codec}; 0 to 4 are known")
    if codec == 0 and count * _RECORD_BYTES_MIN > length:
        raise InvalidRecord(f"a batch claims {count} records in {length} bytes, fewer than they need")
    if producer_id >= 0:
        if base_sequence < 0:
            raise InvalidRecord(
                f"a batch of producer {producer_id} has the base sequence {base_sequence}; 0 is the lowest"
            )
        if producer_epoch < 0:
            raise InvalidProducerEpoch(
                f"a batch of producer {producer_id} has the epoch {producer_epoch}; 0 is the lowest"
            )
    elif producer_id != -1:
        raise InvalidRecord(f"a batch has the producer id {producer_id}; -1 is the lowest")
    elif attributes & TRANSACTIONAL_FLAG:
        raise InvalidRecord("a batch is marked as transactional and has no producer id")


class _Field:
    """One number of a header, read where it lies."""

    __slots__ = ("_position", "_unpack_from")

    def __init__(self, code: str, position: int) -> None:
        self._unpack_from = struct.Struct(">" + code).unpack_from
        self._position = position

    def __get__(self, view: BatchView, owner: type[BatchView]) -> int:
        (value,) = self._unpack_from(view.buffer, view.position + self._position)
        return value  # type: ignore[no-any-return]


class BatchView:
    """A batch inside a larger buffer, its fields read where they lie.

    Raises CorruptRecord when the buffer cannot even hold a header at `position`; everything else is for
    `verify`. The buffer must outlive the view and may be changed beneath it (`assign`), which the view then
    shows.
    """

    __slots__ = ("buffer", "position")

    base_offset = _Field("q", 0)
    batch_length = _Field("i", 8)
    leader_epoch = _Field("i", 12)
    magic = _Field("B", MAGIC_POSITION)
    crc = _Field("I", 17)
    attributes = _Field("h", 21)
    last_offset_delta = _Field("i", 23)
    base_timestamp_ms = _Field("q", 27)
    max_timestamp_ms = _Field("q", 35)
    producer_id = _Field("q", 43)
    producer_epoch = _Field("h", 51)
    base_sequence = _Field("i", 53)
    record_count = _Field("i", 57)

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        if position < 0 or len(buffer) - position < HEADER_BYTES:
            raise _short_header(buffer, position)
        self.buffer = buffer
        self.position = position

    def __repr__(self) -> str:
        return (
            f"BatchView(position={self.position}, base_offset={self.base_offset},"
            f" last_offset={self.last_offset}, record_count={self.record_count},"
            f" size_bytes={self.size_bytes}, attributes={self.attributes:#04x})"
        )

    @property
    def header(self) -> BatchHeader:
        """All fields at once, as they are now."""
        return BatchHeader._make(_unpack_header(self.buffer, self.position))

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included, as its length field says."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def compression(self) -> Compression:
        """Raises CorruptRecord for a number that is no codec."""
        return _compression(self.attributes)

    @property
    def bytes_view(self) -> memoryview:
        """The whole batch. Raises CorruptRecord when its length does not fit the buffer."""
        size = _whole_header(self.buffer, self.position).size_bytes
        return memoryview(self.buffer)[self.position : self.position + size]

    @property
    def payload(self) -> memoryview:
        """The records as they are stored, maybe compressed. Raises CorruptRecord as `bytes_view` does."""
        return self.bytes_view[HEADER_BYTES:]

    def verify(self) -> None:
        """Check length, magic and CRC. Raises CorruptRecord, which says what is wrong and where."""
        verify_header(self.buffer, self.position)


def split(buffer: Buffer, *, may_be_cut: bool = False) -> Iterator[BatchView]:
    """The batches that follow each other in `buffer`, unverified.

    Raises CorruptRecord, after the whole batches before, when the tail is no whole batch of magic 2. With `may_be_cut`
    a tail that is too short, because the bound of a read tore it, is left out unless it comes first.
    """
    position = 0
    size = len(buffer)
    while position < size:
        if may_be_cut and position and size - position < HEADER_BYTES:
            return
        view = BatchView(buffer, position)
        end = position + view.size_bytes
        if may_be_cut and position and end > size:
            return
        if view.magic != MAGIC or end - position < HEADER_BYTES or end > size:
            raise _wrong_frame(view.header, position=position, size=size)
        yield view
        position = end


def assign(buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Write the first record's offset and the leader's epoch in place; the CRC covers neither."""
    _pack_int64_into(buffer, position, base_offset)
    _pack_int32_into(buffer, position + 12, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, position: int, *, timestamp_ms: int) -> None:
    """Stamp the batch with the broker's time, in place: attributes, max timestamp and CRC change.

    Readers take the max timestamp for every record then. Raises CorruptRecord when the length does not fit.
    """
    header = _whole_header(buffer, position)
    _restamp(buffer, position, header.attributes | LOG_APPEND_TIME_FLAG, timestamp_ms)


def clear_log_append_time(buffer: bytearray | memoryview, position: int) -> None:
    """Make the records' own timestamps those that readers see, in place: attributes and CRC change.

    Raises CorruptRecord when the length does not fit.
    """
    header = _whole_header(buffer, position)
    _restamp(buffer, position, header.attributes & ~LOG_APPEND_TIME_FLAG, header.max_timestamp_ms)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, *, timestamp_ms: int) -> None:
    """Write the newest record's timestamp into the header, in place; the CRC changes with it.

    Raises CorruptRecord when the length does not fit.
    """
    _restamp(buffer, position, _whole_header(buffer, position).attributes, timestamp_ms)


def _whole_header(buffer: Buffer, position: int) -> BatchHeader:
    """As `read_header`. Raises CorruptRecord also when the buffer does not hold the whole batch."""
    header = read_header(buffer, position)
    if header.size_bytes < HEADER_BYTES or position + header.size_bytes > len(buffer):
        raise _wrong_frame(header, position=position, size=len(buffer))
    return header


def _restamp(buffer: bytearray | memoryview, position: int, attributes: int, max_timestamp_ms: int) -> None:
    _INT16.pack_into(buffer, position + 21, attributes)
    _pack_int64_into(buffer, position + 35, max_timestamp_ms)
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    """Compute the CRC of the batch at `position` and write it in place. The length must be right already."""
    size = LOG_OVERHEAD_BYTES + int(_unpack_int32(buffer, position + 8)[0])
    checksum = crc32c(memoryview(buffer)[position + CRC_RANGE_POSITION : position + size])
    _UINT32.pack_into(buffer, position + 17, checksum)


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write all fields of `header` in place, the CRC as it says."""
    _HEADER.pack_into(buffer, position, *header)


def _compression(attributes: int) -> Compression:
    number = attributes & COMPRESSION_MASK
    if number > Compression.ZSTD:
        raise CorruptRecord(f"a batch names the compression codec {number}; 0 to 4 are known")
    return Compression(number)


def _timestamp_type(attributes: int) -> TimestampType:
    return TimestampType.LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME


def _short_header(buffer: Buffer, position: int) -> CorruptRecord:
    return CorruptRecord(
        f"a batch header at byte {position} needs {HEADER_BYTES} bytes"
        f" and {max(len(buffer) - position, 0)} are there"
    )


def _wrong_frame(header: BatchHeader, *, position: int, size: int) -> CorruptRecord:
    if header.magic != MAGIC:
        return CorruptRecord(f"the batch at byte {position} has magic {header.magic}; only 2 can be here")
    if header.size_bytes < HEADER_BYTES:
        return CorruptRecord(
            f"the batch at byte {position} gives its size as {header.size_bytes} bytes;"
            f" its header alone takes {HEADER_BYTES}"
        )
    return CorruptRecord(
        f"the batch at byte {position} is cut off: it needs {header.size_bytes} bytes"
        f" and {size - position} are there"
    )
