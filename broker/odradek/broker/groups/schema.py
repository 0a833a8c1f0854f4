"""Committed offsets in `__consumer_offsets`, byte for byte those of Apache Kafka 4.1, and the kinds of its records.

A key is an int16 that says the kind of record, then fields without tags. A value is an int16 version, then fields. A
null value (a tombstone) removes what the key names. Kinds:

    0, 1  a committed offset     group, topic, partition
    2     a classic group        see `classic.schema`
    3-8   consumer groups        see `consumer.schema`
    16    a resolved pattern     see `consumer.schema`
    10-15 share groups           see `share.schema`
    17-23 Streams groups         see `streams.schema`

The coordinator does not read other kinds (those of later versions). It never writes or removes such records.
"""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

from odradek.broker.coordination.records import RecordValue
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

KIND_OFFSET_LEGACY: Final = 0
KIND_OFFSET: Final = 1


class StreamsRecordKind:
    """The number of each kind of record of Streams groups. Here, so that no other log loads what reads them."""

    GROUP: Final = 17
    MEMBER: Final = 19
    TARGET_EPOCH: Final = 20
    TARGET: Final = 21
    CURRENT: Final = 22
    TOPOLOGY: Final = 23


KINDS_OF_STREAMS_GROUPS: Final = frozenset((17, 19, 20, 21, 22, 23))


class ShareRecordKind:
    """The number of each kind of record of share groups. Here for the same reason."""

    MEMBER: Final = 10
    GROUP: Final = 11
    TARGET_EPOCH: Final = 12
    TARGET: Final = 13
    CURRENT: Final = 14
    STATES: Final = 15


KINDS_OF_SHARE_GROUPS: Final = frozenset((10, 11, 12, 13, 14, 15))

# The versions that Kafka 4.1 writes. An offset with an expiry of its own (OffsetCommit v2 to v4) is written in version
# 1, the only one that has the field. Topic ids are read and, as by Kafka, not written for commits by name.
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1

# The head of a committed offset: version, offset, leader epoch, length of the metadata. In version 4 the length is a
# varint of one more, which is one byte for short metadata. A byte at the end counts the tagged fields.
_OFFSET_HEAD: Final = struct.Struct(">hqib")
_OFFSET_HEAD_3: Final = struct.Struct(">hqih")
_SHORT_METADATA_BYTES_MAX: Final = 126
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class OffsetKey(NamedTuple):
    """Names one committed offset."""

    group_id: str
    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """One committed offset: that of the next record to read. -1 stands for an unknown epoch or no expiry."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


# Every version; the one that is written and read by the million is packed by hand below.
_OFFSET_VALUE: Final[RecordValue[OffsetAndMetadata]] = RecordValue(
    "a committed offset",
    Declaration(
        OffsetAndMetadata,
        FieldRow("offset", "int64"),
        FieldRow("leader_epoch", "int32", since=3),
        FieldRow("metadata", "string"),
        FieldRow("commit_timestamp_ms", "int64"),
        FieldRow("expire_timestamp_ms", "int64", since=1, until=1),
        FieldRow("topic_id", "uuid", since=4, tag=0, default=None),
    ),
    version_written=OFFSET_VALUE_VERSION,
    version_max=4,
    flexible_since=4,
)


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return struct.pack(
        f">hh{len(group)}sh{len(name)}si", KIND_OFFSET, len(group), group, len(name), name, partition
    )


def encode_offset_value(value: OffsetAndMetadata) -> bytes:
    if value.expire_timestamp_ms >= 0:
        return _OFFSET_VALUE.encode(value, version=OFFSET_VALUE_VERSION_WITH_EXPIRY)
    metadata = value.metadata.encode()
    if len(metadata) > _SHORT_METADATA_BYTES_MAX or value.topic_id is not None:
        return _OFFSET_VALUE.encode(value)
    return struct.pack(
        f">hqib{len(metadata)}sqb",
        OFFSET_VALUE_VERSION,
        value.offset,
        value.leader_epoch,
        len(metadata) + 1,
        metadata,
        value.commit_timestamp_ms,
        0,
    )


def decode_offset_key(key: bytes) -> OffsetKey:
    """The whole key, its kind included. Nearly all records of a log have one, so it is read by hand.

    Raises CorruptRecord.
    """
    try:
        topic_at = 4 + _INT16.unpack_from(key, 2)[0]
        partition_at = topic_at + 2 + _INT16.unpack_from(key, topic_at)[0]
        if not 4 <= topic_at <= partition_at - 2:
            raise CorruptRecord("an offset key with a negative length")
        group_id, topic = key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode()
        return OffsetKey(group_id, topic, _INT32.unpack_from(key, partition_at)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"an offset key of {len(key)} bytes cannot be read: {error}") from error


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """Versions 0 to 4. Raises CorruptRecord for others and for bytes that end early."""
    version = value[:2]
    if version == b"\0\4":
        return _decode_offset_value_4(value)
    if version == b"\0\3":
        return _decode_offset_value_3(value)
    return _OFFSET_VALUE.decode(value)


def _decode_offset_value_4(value: bytes) -> OffsetAndMetadata:
    """The version that is written, read by hand: a restart reads millions."""
    try:
        _, offset, leader_epoch, size_and_one = _OFFSET_HEAD.unpack_from(value)
        end = _OFFSET_HEAD.size + size_and_one - 1
        # Long metadata, tagged fields, and what is damaged.
        if size_and_one < 1 or value[end + _INT64.size :] != b"\0":
            return _OFFSET_VALUE.decode(value)
        metadata = value[_OFFSET_HEAD.size : end].decode() if size_and_one > 1 else ""
        return OffsetAndMetadata(offset, leader_epoch, metadata, _INT64.unpack_from(value, end)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"a committed offset of {len(value)} bytes cannot be read: {error}") from error


def _decode_offset_value_3(value: bytes) -> OffsetAndMetadata:
    """The version that Odradek and Kafka wrote before, of which a log may hold millions as well."""
    try:
        _, offset, leader_epoch, size = _OFFSET_HEAD_3.unpack_from(value)
        end = _OFFSET_HEAD_3.size + size
        if size < 0:
            raise CorruptRecord("a committed offset with null metadata")
        metadata = value[_OFFSET_HEAD_3.size : end].decode() if size else ""
        return OffsetAndMetadata(offset, leader_epoch, metadata, _INT64.unpack_from(value, end)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"a committed offset of {len(value)} bytes cannot be read: {error}") from error
