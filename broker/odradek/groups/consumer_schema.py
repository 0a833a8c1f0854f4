"""Records of consumer groups (KIP-848) in `__consumer_offsets`, byte for byte those of Apache Kafka 4.1.

    3   the group's epoch and a hash of its topics' metadata     group
    4   partition counts (no longer written since 4.1)           group
    5   a member: what it asks for                               group, member
    6   the epoch of the target assignment                       group
    7   a member's target assignment                             group, member
    8   a member's current assignment and epochs                 group, member
    16  the topics that a subscribed pattern stands for          group, pattern

Values are flexible structures of version 0. Keys and values decode to the classes here; see `schema` for the
frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from odradek.foundation.errors import CorruptRecord
from odradek.groups.wire import WireReader, WireWriter

KIND_GROUP: Final = 3
KIND_PARTITIONS: Final = 4
KIND_MEMBER: Final = 5
KIND_TARGET_EPOCH: Final = 6
KIND_TARGET: Final = 7
KIND_CURRENT: Final = 8
KIND_PATTERN: Final = 16

KINDS_OF_GROUP: Final = frozenset({KIND_GROUP, KIND_PARTITIONS, KIND_TARGET_EPOCH})
KINDS_OF_MEMBER: Final = frozenset({KIND_MEMBER, KIND_TARGET, KIND_CURRENT, KIND_PATTERN})
KINDS: Final = KINDS_OF_GROUP | KINDS_OF_MEMBER

# Partitions by topic id. Members hold many of these, so equal empty ones are shared.
Assignment = Mapping[UUID, frozenset[int]]
EMPTY_ASSIGNMENT: Final[Assignment] = {}


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the numbers are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ConsumerKey(NamedTuple):
    """Names a record of a consumer group; `name` is a member id or a pattern, empty where the kind
    has none.
    """

    kind: int
    group_id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class GroupValue:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """What a member told that speaks the classic protocol to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicProtocols | None = None


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    epoch: int


@dataclass(frozen=True, slots=True)
class TargetValue:
    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentValue:
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Assignment
    pending_revocation: Assignment


@dataclass(frozen=True, slots=True)
class PatternValue:
    """`version` is the metadata version that it was matched against, `timestamp_ms` when."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Value = GroupValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | PatternValue


def encode_key(kind: int, group_id: str, name: str | None = None) -> bytes:
    writer = WireWriter()
    writer.int16(kind)
    writer.string(group_id)
    if name is not None:
        writer.string(name)
    return writer.finish()


def decode_key(kind: int, reader: WireReader) -> ConsumerKey:
    return ConsumerKey(kind, reader.string(), reader.string() if kind in KINDS_OF_MEMBER else "")


def encode_value(value: Value) -> bytes:
    writer = WireWriter()
    writer.int16(0)
    tags: dict[int, bytes] = {}
    match value:
        case GroupValue():
            writer.int32(value.epoch)
            if value.metadata_hash:
                tags[0] = value.metadata_hash.to_bytes(8, "big", signed=True)
        case MemberValue():
            _write_member(writer, value)
            if value.classic is not None:
                tags[0] = _classic_bytes(value.classic)
        case TargetEpochValue():
            writer.int32(value.epoch)
        case TargetValue():
            _write_assignment(writer, value.partitions)
        case CurrentValue():
            writer.int32(value.member_epoch)
            writer.int32(value.previous_member_epoch)
            writer.int8(value.state)
            _write_assignment(writer, value.assigned)
            _write_assignment(writer, value.pending_revocation)
        case PatternValue():
            writer.array(value.topics, lambda topic: writer.string(topic, flexible=True), flexible=True)
            writer.int64(value.version)
            writer.int64(value.timestamp_ms)
    writer.tagged_fields(tags)
    return writer.finish()


def _write_member(writer: WireWriter, value: MemberValue) -> None:
    writer.string(value.instance_id, flexible=True)
    writer.string(value.rack_id, flexible=True)
    writer.string(value.client_id, flexible=True)
    writer.string(value.client_host, flexible=True)
    writer.array(value.topic_names, lambda name: writer.string(name, flexible=True), flexible=True)
    writer.string(value.topic_regex, flexible=True)
    writer.int32(value.rebalance_timeout_ms)
    writer.string(value.server_assignor, flexible=True)


def _classic_bytes(classic: ClassicProtocols) -> bytes:
    """A nullable structure as a tagged field: a byte 1 says that it is there."""
    writer = WireWriter()
    writer.int8(1)
    writer.int32(classic.session_timeout_ms)

    def write_protocol(protocol: tuple[str, bytes]) -> None:
        writer.string(protocol[0], flexible=True)
        writer.bytes_(protocol[1], flexible=True)
        writer.tagged_fields()

    writer.array(classic.protocols, write_protocol, flexible=True)
    writer.tagged_fields()
    return writer.finish()


def _write_assignment(writer: WireWriter, assignment: Assignment) -> None:
    def write_topic(item: tuple[UUID, Iterable[int]]) -> None:
        writer.uuid(item[0])
        writer.array(sorted(item[1]), writer.int32, flexible=True)
        writer.tagged_fields()

    writer.array(sorted(assignment.items()), write_topic, flexible=True)


def decode_value(kind: int, value: bytes) -> Value | None:
    """The value of a record of `kind`; None for partition counts, which are no longer used.

    Raises CorruptRecord for a version that is not 0 and for bytes that end early.
    """
    reader = WireReader(value)
    version = reader.int16()
    if version != 0:
        raise CorruptRecord(
            f"a consumer group record of kind {kind} and version {version}; this broker reads 0"
        )
    decoded: Value
    match kind:
        case 3:
            epoch = reader.int32()
            tagged = reader.tagged_fields().get(0)
            return GroupValue(epoch, WireReader(tagged).int64() if tagged is not None else 0)
        case 5:
            return _read_member(reader)
        case 6:
            decoded = TargetEpochValue(reader.int32())
        case 7:
            decoded = TargetValue(_read_assignment(reader))
        case 8:
            decoded = _read_current(reader)
        case 16:
            topics = reader.array(lambda: reader.string(flexible=True), flexible=True)
            decoded = PatternValue(topics, reader.int64(), reader.int64())
        case _:
            return None
    reader.tagged_fields()
    return decoded


def _read_member(reader: WireReader) -> MemberValue:
    instance_id = reader.nullable_string(flexible=True)
    rack_id = reader.nullable_string(flexible=True)
    client_id = reader.string(flexible=True)
    client_host = reader.string(flexible=True)
    topic_names = reader.array(lambda: reader.string(flexible=True), flexible=True)
    topic_regex = reader.nullable_string(flexible=True)
    rebalance_timeout_ms = reader.int32()
    server_assignor = reader.nullable_string(flexible=True)
    tagged = reader.tagged_fields().get(0)
    return MemberValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topic_names=topic_names,
        topic_regex=topic_regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic=_read_classic(WireReader(tagged)) if tagged is not None else None,
    )


def _read_classic(reader: WireReader) -> ClassicProtocols | None:
    if reader.int8() < 0:
        return None
    session_timeout_ms = reader.int32()

    def read_protocol() -> tuple[str, bytes]:
        protocol = reader.string(flexible=True), reader.bytes_(flexible=True)
        reader.tagged_fields()
        return protocol

    return ClassicProtocols(session_timeout_ms, reader.array(read_protocol, flexible=True))


def _read_current(reader: WireReader) -> CurrentValue:
    member_epoch, previous_member_epoch, state = reader.int32(), reader.int32(), reader.int8()
    known = state in (0, 1, 2)
    return CurrentValue(
        member_epoch=member_epoch,
        previous_member_epoch=previous_member_epoch,
        state=MemberState(state) if known else MemberState.UNKNOWN,
        assigned=_read_assignment(reader),
        pending_revocation=_read_assignment(reader),
    )


def _read_assignment(reader: WireReader) -> Assignment:
    def read_topic() -> tuple[UUID, frozenset[int]]:
        topic = reader.uuid(), frozenset(reader.array(reader.int32, flexible=True))
        reader.tagged_fields()
        return topic

    topics = reader.array(read_topic, flexible=True)
    return dict(topics) if topics else EMPTY_ASSIGNMENT
