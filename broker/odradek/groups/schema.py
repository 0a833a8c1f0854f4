"""Keys and values of the records in `__consumer_offsets`, byte for byte those of Apache Kafka 4.1.

A key is an int16 that tells the kind of record, then fields without tags; a value is an int16 version, then
fields; a null value (a tombstone) removes what the key names. Kinds:

    0, 1  a committed offset     group, topic, partition
    2     a classic group        group
    3-8   consumer groups        see `consumer_schema`
    16    a resolved pattern     see `consumer_schema`

Everything else (share groups, streams groups, what later versions bring) decodes to None and is kept out of
the coordinator; such records are never written or removed here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from odradek.foundation.errors import CorruptRecord
from odradek.groups.wire import WireReader, WireWriter

KIND_OFFSET_LEGACY: Final = 0
KIND_OFFSET: Final = 1
KIND_CLASSIC_GROUP: Final = 2

# The versions that Kafka 4.1 writes: 3 is the newest that a broker before flexible values can read. An offset
# with an expiry of its own (OffsetCommit v2 to v4) is written in version 1, the only one that has the field.
OFFSET_VALUE_VERSION: Final = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
CLASSIC_GROUP_VALUE_VERSION: Final = 3

# The head of a committed offset of version 3: version, offset, leader epoch, length of the metadata.
_OFFSET_HEAD: Final = struct.Struct(">hqih")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

Encoded = tuple[bytes, bytes | None]  # key and value of one record; a value of None is a tombstone


class OffsetKey(NamedTuple):
    """Names one committed offset."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """One committed position. `offset` is the next to be read; -1 stands for an unknown epoch or no
    expiry.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberValue:
    """One member of a stored classic group. Times in milliseconds."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupValue:
    """A stored classic group: its last generation and who was assigned what."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int = -1
    members: tuple[ClassicMemberValue, ...] = ()


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return struct.pack(
        f">hh{len(group)}sh{len(name)}si", KIND_OFFSET, len(group), group, len(name), name, partition
    )


def encode_offset_value(value: CommittedOffset) -> bytes:
    metadata = value.metadata.encode()
    if value.expire_timestamp_ms >= 0:
        return struct.pack(
            f">hqh{len(metadata)}sqq",
            OFFSET_VALUE_VERSION_WITH_EXPIRY,
            value.offset,
            len(metadata),
            metadata,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
        )
    return struct.pack(
        f">hqih{len(metadata)}sq",
        OFFSET_VALUE_VERSION,
        value.offset,
        value.leader_epoch,
        len(metadata),
        metadata,
        value.commit_timestamp_ms,
    )


def decode_offset_key(key: bytes) -> OffsetKey:
    """The whole key, its kind included. Nearly all records of a log have one, so it is read without a reader.

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


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Versions 0 to 4. Raises CorruptRecord for others and for bytes that end early."""
    if value[:2] == b"\0\3":
        return _decode_offset_value_3(value)
    reader = WireReader(value)
    version = _version(reader, 4, "a committed offset")
    flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string(flexible=flexible)
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    topic_id = None
    if flexible:
        tagged = reader.tagged_fields().get(0)
        topic_id = WireReader(tagged).uuid() if tagged is not None else None
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id)


def _decode_offset_value_3(value: bytes) -> CommittedOffset:
    """The version that everybody writes, read without a reader: a restart reads millions."""
    try:
        _, offset, leader_epoch, size = _OFFSET_HEAD.unpack_from(value)
        end = _OFFSET_HEAD.size + size
        if size < 0:
            raise CorruptRecord("a committed offset with null metadata")
        metadata = value[_OFFSET_HEAD.size : end].decode() if size else ""
        return CommittedOffset(offset, leader_epoch, metadata, _INT64.unpack_from(value, end)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"a committed offset of {len(value)} bytes cannot be read: {error}") from error


def encode_classic_group_key(group_id: str) -> bytes:
    writer = WireWriter()
    writer.int16(KIND_CLASSIC_GROUP)
    writer.string(group_id)
    return writer.finish()


def encode_classic_group_value(value: ClassicGroupValue) -> bytes:
    writer = WireWriter()
    writer.int16(CLASSIC_GROUP_VALUE_VERSION)
    writer.string(value.protocol_type)
    writer.int32(value.generation)
    writer.string(value.protocol)
    writer.string(value.leader)
    writer.int64(value.state_timestamp_ms)

    def write_member(member: ClassicMemberValue) -> None:
        writer.string(member.member_id)
        writer.string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.bytes_(member.subscription)
        writer.bytes_(member.assignment)

    writer.array(value.members, write_member)
    return writer.finish()


def decode_classic_group_value(value: bytes) -> ClassicGroupValue:
    """Versions 0 to 4. Raises CorruptRecord for others and for bytes that end early."""
    reader = WireReader(value)
    version = _version(reader, 4, "a classic group")
    flexible = version >= 4

    def read_member() -> ClassicMemberValue:
        member_id = reader.string(flexible=flexible)
        instance_id = reader.nullable_string(flexible=flexible) if version >= 3 else None
        client_id = reader.string(flexible=flexible)
        client_host = reader.string(flexible=flexible)
        rebalance_timeout_ms = reader.int32() if version >= 1 else -1
        session_timeout_ms = reader.int32()
        subscription = reader.bytes_(flexible=flexible)
        assignment = reader.bytes_(flexible=flexible)
        if flexible:
            reader.tagged_fields()
        return ClassicMemberValue(
            member_id=member_id,
            group_instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            subscription=subscription,
            assignment=assignment,
        )

    group = ClassicGroupValue(
        protocol_type=reader.string(flexible=flexible),
        generation=reader.int32(),
        protocol=reader.nullable_string(flexible=flexible),
        leader=reader.nullable_string(flexible=flexible),
        state_timestamp_ms=reader.int64() if version >= 2 else -1,
        members=reader.array(read_member, flexible=flexible),
    )
    if flexible:
        reader.tagged_fields()
    return group


def kind_of(key: bytes) -> int:
    """The kind of record that a key announces. Raises CorruptRecord for a key shorter than its kind."""
    if len(key) < 2:
        raise CorruptRecord(f"a record key of {len(key)} bytes does not tell its kind")
    return int.from_bytes(key[:2], "big", signed=True)


def _version(reader: WireReader, version_max: int, what: str) -> int:
    version = reader.int16()
    if not 0 <= version <= version_max:
        raise CorruptRecord(f"{what} of version {version}; this broker reads versions 0 to {version_max}")
    return version
