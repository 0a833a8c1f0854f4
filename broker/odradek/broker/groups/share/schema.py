"""Records of share groups (KIP-932) in `__consumer_offsets`, byte for byte those of Apache Kafka 4.4.

    10  a member: what it asks for                             group, member
    11  the group's epoch and a hash of its topics' metadata   group
    12  the epoch of the target assignment, and when           group
    13  a member's target assignment                           group, member
    14  a member's current assignment and epochs               group, member
    15  the share-partitions whose state is kept               group

Values are flexible structures of version 0. The rows below name the fields of each kind in the order of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.broker.groups.consumer.schema import (
    EMPTY_ASSIGNMENT,
    Assignment,
    TopicIdPartitions,
)
from odradek.broker.groups.member_records import GroupRecordKey, declare_keys, declare_values
from odradek.broker.groups.schema import KINDS_OF_SHARE_GROUPS, ShareRecordKind
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

KINDS_OF_MEMBER: Final = frozenset({ShareRecordKind.MEMBER, ShareRecordKind.TARGET, ShareRecordKind.CURRENT})

STABLE: Final = 0  # the one state of a member that Kafka writes: nothing has to be revoked
_NULL_ID: Final = UUID(int=0)


class ShareGroupValue(NamedTuple):
    epoch: int
    metadata_hash: int = 0


class ShareMemberValue(NamedTuple):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()


class ShareTargetEpochValue(NamedTuple):
    """`timestamp_ms` is when the target was computed, in ms since 1970; 0 when no member was there."""

    epoch: int
    timestamp_ms: int = 0


class ShareTargetValue(NamedTuple):
    partitions: Assignment = EMPTY_ASSIGNMENT

    @property
    def topic_partitions(self) -> list[TopicIdPartitions]:
        return _write_partitions(self.partitions)


class ShareCurrentValue(NamedTuple):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = STABLE
    assigned: Assignment = EMPTY_ASSIGNMENT

    @property
    def assigned_partitions(self) -> list[TopicIdPartitions]:
        return _write_partitions(self.assigned)


class SharedTopic(NamedTuple):
    """A topic, and those of its partitions whose state is being made or is there. Names are for readers alone."""

    name: str
    partitions: frozenset[int] = frozenset()


Topics = Mapping[UUID, SharedTopic]
_NO_TOPICS: Final[Topics] = {}


class NamedTopicPartitions(NamedTuple):
    """A topic with partitions, as on the wire."""

    topic_id: UUID | None
    topic_name: str
    partitions: Sequence[int]


class UnsharedTopic(NamedTuple):
    """A topic, as on the wire."""

    topic_id: UUID | None
    topic_name: str


class ShareStatesValue(NamedTuple):
    """The topics whose state is being initialized, is there, or is being deleted."""

    initializing: Topics = _NO_TOPICS
    initialized: Topics = _NO_TOPICS
    deleting: Topics = _NO_TOPICS

    @property
    def initializing_topics(self) -> list[NamedTopicPartitions]:
        return _write_topics(self.initializing)

    @property
    def initialized_topics(self) -> list[NamedTopicPartitions]:
        return _write_topics(self.initialized)

    @property
    def deleting_topics(self) -> list[UnsharedTopic]:
        return [UnsharedTopic(topic_id, topic.name) for topic_id, topic in sorted(self.deleting.items())]


ShareValue = (
    ShareGroupValue
    | ShareMemberValue
    | ShareTargetEpochValue
    | ShareTargetValue
    | ShareCurrentValue
    | ShareStatesValue
)


def _write_partitions(assignment: Assignment) -> list[TopicIdPartitions]:
    return [TopicIdPartitions(topic_id, sorted(numbers)) for topic_id, numbers in sorted(assignment.items())]


def _write_topics(topics: Topics) -> list[NamedTopicPartitions]:
    return [
        NamedTopicPartitions(topic_id, topic.name, sorted(topic.partitions))
        for topic_id, topic in sorted(topics.items())
    ]


# --- rows ---------------------------------------------------------------------------------------------------


def _read_partitions(topics: Sequence[TopicIdPartitions]) -> Assignment:
    if not topics:
        return EMPTY_ASSIGNMENT
    return {topic_id or _NULL_ID: frozenset(numbers) for topic_id, numbers in topics}


def _target(*, topic_partitions: Sequence[TopicIdPartitions]) -> ShareTargetValue:
    return ShareTargetValue(_read_partitions(topic_partitions))


def _current(
    *,
    member_epoch: int,
    previous_member_epoch: int,
    state: int,
    assigned_partitions: Sequence[TopicIdPartitions],
) -> ShareCurrentValue:
    return ShareCurrentValue(
        member_epoch, previous_member_epoch, state, _read_partitions(assigned_partitions)
    )


def _states(
    *,
    initializing_topics: Sequence[NamedTopicPartitions],
    initialized_topics: Sequence[NamedTopicPartitions],
    deleting_topics: Sequence[UnsharedTopic],
) -> ShareStatesValue:
    return ShareStatesValue(
        _read_topics(initializing_topics),
        _read_topics(initialized_topics),
        {topic_id or _NULL_ID: SharedTopic(name) for topic_id, name in deleting_topics},
    )


def _read_topics(topics: Sequence[NamedTopicPartitions]) -> Topics:
    return {topic_id or _NULL_ID: SharedTopic(name, frozenset(numbers)) for topic_id, name, numbers in topics}


_TOPIC_PARTITIONS: Final = Declaration(
    TopicIdPartitions, FieldRow("topic_id", "uuid"), FieldRow("partitions", "int32", is_array=True)
)
_NAMED_PARTITIONS: Final = Declaration(
    NamedTopicPartitions,
    FieldRow("topic_id", "uuid"),
    FieldRow("topic_name", "string"),
    FieldRow("partitions", "int32", is_array=True),
)
_NAMED_TOPIC: Final = Declaration(
    UnsharedTopic, FieldRow("topic_id", "uuid"), FieldRow("topic_name", "string")
)
_DECLARATIONS: Final = {
    ShareRecordKind.MEMBER: Declaration(
        ShareMemberValue,
        FieldRow("rack_id", "string", is_nullable=True),
        FieldRow("client_id", "string"),
        FieldRow("client_host", "string"),
        FieldRow("topic_names", "string", is_array=True),
    ),
    ShareRecordKind.GROUP: Declaration(
        ShareGroupValue, FieldRow("epoch", "int32"), FieldRow("metadata_hash", "int64")
    ),
    ShareRecordKind.TARGET_EPOCH: Declaration(
        ShareTargetEpochValue,
        FieldRow("epoch", "int32"),
        FieldRow("timestamp_ms", "int64", tag=0, default=0),
    ),
    ShareRecordKind.TARGET: Declaration(
        _target, FieldRow("topic_partitions", structure=_TOPIC_PARTITIONS, is_array=True)
    ),
    ShareRecordKind.CURRENT: Declaration(
        _current,
        FieldRow("member_epoch", "int32"),
        FieldRow("previous_member_epoch", "int32"),
        FieldRow("state", "int8"),
        FieldRow("assigned_partitions", structure=_TOPIC_PARTITIONS, is_array=True),
    ),
    ShareRecordKind.STATES: Declaration(
        _states,
        FieldRow("initializing_topics", structure=_NAMED_PARTITIONS, is_array=True),
        FieldRow("initialized_topics", structure=_NAMED_PARTITIONS, is_array=True),
        FieldRow("deleting_topics", structure=_NAMED_TOPIC, is_array=True),
    ),
}
_VALUES: Final = declare_values("share group", _DECLARATIONS)
_KINDS_OF_VALUES: Final = {
    ShareGroupValue: ShareRecordKind.GROUP,
    ShareMemberValue: ShareRecordKind.MEMBER,
    ShareTargetEpochValue: ShareRecordKind.TARGET_EPOCH,
    ShareTargetValue: ShareRecordKind.TARGET,
    ShareCurrentValue: ShareRecordKind.CURRENT,
    ShareStatesValue: ShareRecordKind.STATES,
}
_KEYS: Final = declare_keys(KINDS_OF_SHARE_GROUPS, KINDS_OF_MEMBER)


def encode_share_key(kind: int, group_id: str, name: str | None = None) -> bytes:
    return _KEYS[kind].encode(GroupRecordKey(kind, group_id, name or ""))


def decode_share_key(kind: int, key: bytes) -> GroupRecordKey:
    """The whole key, its kind included. Raises CorruptRecord."""
    return _KEYS[kind].decode(key)


def encode_share_value(value: ShareValue) -> bytes:
    return _VALUES[_KINDS_OF_VALUES[type(value)]].encode(value)


def decode_share_value(kind: int, value: bytes) -> ShareValue:
    """Raises CorruptRecord."""
    decoded: ShareValue = _VALUES[kind].decode(value)
    return decoded
