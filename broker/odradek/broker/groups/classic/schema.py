"""The record of a classic group in `__consumer_offsets`, byte for byte that of Apache Kafka 4.1: kind 2."""

from __future__ import annotations

from typing import Final

from odradek.broker.coordination.records import RecordKey, RecordValue
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

KIND_CLASSIC_GROUP: Final = 2


class ClassicMemberValue(NamedTuple):
    """One member of a stored classic group. Times in milliseconds."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = -1


class ClassicGroupValue(NamedTuple):
    """A stored classic group: its last generation and what each member was assigned."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int = -1
    members: tuple[ClassicMemberValue, ...] = ()


class _GroupKey(NamedTuple):
    group_id: str


_MEMBER: Final = Declaration(
    ClassicMemberValue,
    FieldRow("member_id", "string"),
    FieldRow("group_instance_id", "string", since=3, is_nullable=True),
    FieldRow("client_id", "string"),
    FieldRow("client_host", "string"),
    FieldRow("rebalance_timeout_ms", "int32", since=1),
    FieldRow("session_timeout_ms", "int32"),
    FieldRow("subscription", "bytes"),
    FieldRow("assignment", "bytes"),
)
_GROUP: Final = Declaration(
    ClassicGroupValue,
    FieldRow("protocol_type", "string"),
    FieldRow("generation", "int32"),
    FieldRow("protocol", "string", is_nullable=True),
    FieldRow("leader", "string", is_nullable=True),
    FieldRow("state_timestamp_ms", "int64", since=2),
    FieldRow("members", structure=_MEMBER, is_array=True),
)
_KEY: Final[RecordKey[_GroupKey]] = RecordKey(
    KIND_CLASSIC_GROUP, Declaration(_GroupKey, FieldRow("group_id", "string"))
)
# Version 3 is the newest that brokers before flexible values can read, and the one that Kafka 4.1 writes.
_VALUE: Final[RecordValue[ClassicGroupValue]] = RecordValue(
    "a classic group", _GROUP, version_written=3, version_max=4, flexible_since=4
)


def encode_classic_group_key(group_id: str) -> bytes:
    return _KEY.encode(_GroupKey(group_id))


def decode_classic_group_key(key: bytes) -> str:
    """The group's id. Raises CorruptRecord."""
    return _KEY.decode(key).group_id


def encode_classic_group_value(value: ClassicGroupValue) -> bytes:
    return _VALUE.encode(value)


def decode_classic_group_value(value: bytes) -> ClassicGroupValue:
    """Versions 0 to 4. Raises CorruptRecord."""
    return _VALUE.decode(value)
