"""Records of consumer groups (KIP-848) in `__consumer_offsets`, byte for byte those of Apache Kafka 4.1.

    3   the group's epoch and a hash of its topics' metadata     group
    4   partition counts (no longer written since 4.1)           group
    5   a member: what it asks for                               group, member
    6   the epoch of the target assignment                       group
    7   a member's target assignment                             group, member
    8   a member's current assignment and epochs                 group, member
    16  the topics that a subscribed pattern stands for          group, pattern

Values are flexible structures of version 0. The rows below name the fields of each kind in the order of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final
from uuid import UUID

from odradek.broker.coordination.records import check_version
from odradek.broker.groups.member_records import GroupRecordKey, declare_keys, declare_values
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow


class RecordKind:
    """The number of each kind of record."""

    GROUP: Final = 3
    PARTITIONS: Final = 4
    MEMBER: Final = 5
    TARGET_EPOCH: Final = 6
    TARGET: Final = 7
    CURRENT: Final = 8
    PATTERN: Final = 16


KINDS_OF_GROUP: Final = frozenset({RecordKind.GROUP, RecordKind.PARTITIONS, RecordKind.TARGET_EPOCH})
KINDS_OF_MEMBER: Final = frozenset(
    {RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT, RecordKind.PATTERN}
)
KINDS: Final = KINDS_OF_GROUP | KINDS_OF_MEMBER

# Partitions by topic id. Members hold many of these, so equal empty ones are shared.
Assignment = Mapping[UUID, frozenset[int]]
EMPTY_ASSIGNMENT: Final[Assignment] = {}

_NULL_ID: Final = UUID(int=0)


class TopicIdPartitions(NamedTuple):
    """The partitions of one topic, as on the wire."""

    topic_id: UUID | None
    partitions: Sequence[int]


def _topic_partitions(assignment: Assignment) -> list[TopicIdPartitions]:
    return [TopicIdPartitions(topic_id, sorted(indexes)) for topic_id, indexes in sorted(assignment.items())]


def _assignment(topics: Sequence[TopicIdPartitions]) -> Assignment:
    if not topics:
        return EMPTY_ASSIGNMENT
    return {topic_id or _NULL_ID: frozenset(indexes) for topic_id, indexes in topics}


class MemberState(IntEnum):
    """A member's progress to its target assignment; the numbers are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class GroupValue(NamedTuple):
    epoch: int
    metadata_hash: int = 0


class SupportedProtocol(NamedTuple):
    """One assignor that a member of the classic protocol supports."""

    name: str
    metadata: bytes


class ClassicProtocols(NamedTuple):
    """The session timeout and assignors of a member that speaks the classic protocol to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(
        cls, *, session_timeout_ms: int, supported_protocols: tuple[SupportedProtocol, ...]
    ) -> ClassicProtocols:
        return cls(session_timeout_ms, supported_protocols)

    @property
    def supported_protocols(self) -> list[SupportedProtocol]:
        return [SupportedProtocol(name, metadata) for name, metadata in self.protocols]


class MemberValue(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicProtocols | None = None


class TargetEpochValue(NamedTuple):
    """`timestamp_ms` is when the target was computed, in ms since 1970; 0 where the next one need not wait."""

    epoch: int
    timestamp_ms: int = 0


class TargetValue(NamedTuple):
    partitions: Assignment

    @property
    def topic_partitions(self) -> list[TopicIdPartitions]:
        return _topic_partitions(self.partitions)


class CurrentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Assignment
    pending_revocation: Assignment

    @property
    def assigned_partitions(self) -> list[TopicIdPartitions]:
        return _topic_partitions(self.assigned)

    @property
    def partitions_pending_revocation(self) -> list[TopicIdPartitions]:
        return _topic_partitions(self.pending_revocation)


class PatternValue(NamedTuple):
    """`version` is the metadata version that it was matched against, `timestamp_ms` when."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Value = GroupValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | PatternValue


# --- rows ---------------------------------------------------------------------------------------------------


def _target(*, topic_partitions: Sequence[TopicIdPartitions]) -> TargetValue:
    return TargetValue(_assignment(topic_partitions))


def _current(
    *,
    state: int,
    assigned_partitions: Sequence[TopicIdPartitions],
    partitions_pending_revocation: Sequence[TopicIdPartitions],
    **epochs: int,
) -> CurrentValue:
    return CurrentValue(
        state=MemberState(state) if state in _KNOWN_STATES else MemberState.UNKNOWN,
        assigned=_assignment(assigned_partitions),
        pending_revocation=_assignment(partitions_pending_revocation),
        **epochs,
    )


_KNOWN_STATES: Final = frozenset({0, 1, 2})

_TOPIC_PARTITIONS: Final = Declaration(
    TopicIdPartitions, FieldRow("topic_id", "uuid"), FieldRow("partitions", "int32", is_array=True)
)
_CLASSIC_PROTOCOLS: Final = Declaration(
    ClassicProtocols.of,
    FieldRow("session_timeout_ms", "int32"),
    FieldRow(
        "supported_protocols",
        structure=Declaration(SupportedProtocol, FieldRow("name", "string"), FieldRow("metadata", "bytes")),
        is_array=True,
    ),
)
_DECLARATIONS: Final = {
    RecordKind.GROUP: Declaration(
        GroupValue, FieldRow("epoch", "int32"), FieldRow("metadata_hash", "int64", tag=0, default=0)
    ),
    RecordKind.MEMBER: Declaration(
        MemberValue,
        FieldRow("instance_id", "string", is_nullable=True),
        FieldRow("rack_id", "string", is_nullable=True),
        FieldRow("client_id", "string"),
        FieldRow("client_host", "string"),
        FieldRow("topic_names", "string", is_array=True),
        FieldRow("topic_regex", "string", is_nullable=True),
        FieldRow("rebalance_timeout_ms", "int32"),
        FieldRow("server_assignor", "string", is_nullable=True),
        FieldRow("classic", structure=_CLASSIC_PROTOCOLS, is_nullable=True, tag=0, default=None),
    ),
    RecordKind.TARGET_EPOCH: Declaration(
        TargetEpochValue,
        FieldRow("epoch", "int32"),
        FieldRow("timestamp_ms", "int64", tag=0, default=0),
    ),
    RecordKind.TARGET: Declaration(
        _target, FieldRow("topic_partitions", structure=_TOPIC_PARTITIONS, is_array=True)
    ),
    RecordKind.CURRENT: Declaration(
        _current,
        FieldRow("member_epoch", "int32"),
        FieldRow("previous_member_epoch", "int32"),
        FieldRow("state", "int8"),
        FieldRow("assigned_partitions", structure=_TOPIC_PARTITIONS, is_array=True),
        FieldRow("partitions_pending_revocation", structure=_TOPIC_PARTITIONS, is_array=True),
    ),
    RecordKind.PATTERN: Declaration(
        PatternValue,
        FieldRow("topics", "string", is_array=True),
        FieldRow("version", "int64"),
        FieldRow("timestamp_ms", "int64"),
    ),
}
_VALUES: Final = declare_values("consumer group", _DECLARATIONS)
_KINDS_OF_VALUES: Final = {
    GroupValue: RecordKind.GROUP,
    MemberValue: RecordKind.MEMBER,
    TargetEpochValue: RecordKind.TARGET_EPOCH,
    TargetValue: RecordKind.TARGET,
    CurrentValue: RecordKind.CURRENT,
    PatternValue: RecordKind.PATTERN,
}
_KEYS: Final = declare_keys(KINDS, KINDS_OF_MEMBER)


def encode_key(kind: int, group_id: str, name: str | None = None) -> bytes:
    return _KEYS[kind].encode(GroupRecordKey(kind, group_id, name or ""))


def decode_key(kind: int, key: bytes) -> GroupRecordKey:
    """The whole key, its kind included. Raises CorruptRecord."""
    return _KEYS[kind].decode(key)


def encode_value(value: Value) -> bytes:
    return _VALUES[_KINDS_OF_VALUES[type(value)]].encode(value)


def decode_value(kind: int, value: bytes) -> Value | None:
    """The value of a record of `kind`; None for partition counts, which are no longer used.

    Raises CorruptRecord.
    """
    if kind == RecordKind.PARTITIONS:
        check_version(value, f"a consumer group record of kind {kind}", 0)
        return None
    decoded: Value = _VALUES[kind].decode(value)
    return decoded
