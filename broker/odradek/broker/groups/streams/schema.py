"""Records of Streams groups (KIP-1071) in `__consumer_offsets`, byte for byte those of Apache Kafka 4.4.

    17  the group's epoch, a hash of its topics, and more     group
    18  partition counts (of versions before 4.1)             group
    19  a member: what it is                                  group, member
    20  the epoch of the target assignment, and when          group
    21  a member's target assignment                          group, member
    22  a member's current assignment and epochs              group, member
    23  the topology                                          group

Values are flexible structures of version 0. The rows below name the fields of each kind in the order of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from odradek.broker.coordination.records import RecordValue
from odradek.broker.groups.member_records import GroupRecordKey, declare_keys, declare_values
from odradek.broker.groups.schema import StreamsRecordKind
from odradek.broker.groups.streams.tasks import (
    HeldTasks,
    TargetTasks,
    TaskRows,
    read_epochs,
    read_tasks,
    write_epochs,
    write_tasks,
)
from odradek.broker.groups.streams.topology import (
    CopartitionedTopics,
    InternalTopic,
    StreamsSubtopology,
    StreamsTopology,
    TopicSetting,
)
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

NO_TOPOLOGY_EPOCH: Final = -1

KINDS_OF_MEMBER: Final = frozenset(
    {StreamsRecordKind.MEMBER, StreamsRecordKind.TARGET, StreamsRecordKind.CURRENT}
)


class TaskState(IntEnum):
    """A member's progress to its target assignment; the numbers are stored."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class AssignmentConfig(NamedTuple):
    """A setting that assignments depend on, as it was at the last one."""

    key: str
    value: str


class StreamsGroupValue(NamedTuple):
    """The two last epochs belong to Kafka's plug-ins for descriptions of topologies. They are kept as they are."""

    epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = NO_TOPOLOGY_EPOCH
    last_assignment_configs: tuple[AssignmentConfig, ...] = ()
    stored_description_topology_epoch: int = NO_TOPOLOGY_EPOCH
    failed_description_topology_epoch: int = NO_TOPOLOGY_EPOCH


class UserEndpoint(NamedTuple):
    """The address at which a member answers interactive queries."""

    host: str
    port: int


class ClientTag(NamedTuple):
    key: str
    value: str


class StreamsMemberValue(NamedTuple):
    """`process_id` is equal for the threads of one process."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: tuple[ClientTag, ...] = ()


class StreamsTargetEpochValue(NamedTuple):
    """`timestamp_ms` is when the target was computed, in ms since 1970; 0 when no member was there."""

    epoch: int
    timestamp_ms: int = 0


class StreamsTargetValue(NamedTuple):
    tasks: TargetTasks

    @property
    def active_tasks(self) -> list[TaskRows]:
        return write_tasks(self.tasks.active)

    @property
    def standby_tasks(self) -> list[TaskRows]:
        return write_tasks(self.tasks.standby)

    @property
    def warmup_tasks(self) -> list[TaskRows]:
        return write_tasks(self.tasks.warmup)


class StreamsCurrentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: TaskState
    assigned: HeldTasks
    pending_revocation: HeldTasks

    @property
    def active_tasks(self) -> list[TaskRows]:
        return write_epochs(self.assigned.active)

    @property
    def standby_tasks(self) -> list[TaskRows]:
        return write_tasks(self.assigned.standby)

    @property
    def warmup_tasks(self) -> list[TaskRows]:
        return write_tasks(self.assigned.warmup)

    @property
    def active_tasks_pending_revocation(self) -> list[TaskRows]:
        return write_epochs(self.pending_revocation.active)

    @property
    def standby_tasks_pending_revocation(self) -> list[TaskRows]:
        return write_tasks(self.pending_revocation.standby)

    @property
    def warmup_tasks_pending_revocation(self) -> list[TaskRows]:
        return write_tasks(self.pending_revocation.warmup)


StreamsValue = (
    StreamsGroupValue
    | StreamsMemberValue
    | StreamsTargetEpochValue
    | StreamsTargetValue
    | StreamsCurrentValue
    | StreamsTopology
)


# --- rows ---------------------------------------------------------------------------------------------------


def _group(*, last_assignment_configs: Sequence[AssignmentConfig] | None, **values: int) -> StreamsGroupValue:
    return StreamsGroupValue(last_assignment_configs=tuple(last_assignment_configs or ()), **values)


def _target(
    *,
    active_tasks: Sequence[TaskRows],
    standby_tasks: Sequence[TaskRows],
    warmup_tasks: Sequence[TaskRows],
) -> StreamsTargetValue:
    return StreamsTargetValue(
        TargetTasks(read_tasks(active_tasks), read_tasks(standby_tasks), read_tasks(warmup_tasks))
    )


def _current(
    *,
    member_epoch: int,
    previous_member_epoch: int,
    state: int,
    active_tasks: Sequence[TaskRows],
    standby_tasks: Sequence[TaskRows],
    warmup_tasks: Sequence[TaskRows],
    active_tasks_pending_revocation: Sequence[TaskRows],
    standby_tasks_pending_revocation: Sequence[TaskRows],
    warmup_tasks_pending_revocation: Sequence[TaskRows],
) -> StreamsCurrentValue:
    return StreamsCurrentValue(
        member_epoch,
        previous_member_epoch,
        TaskState(state) if state in _KNOWN_STATES else TaskState.UNKNOWN,
        HeldTasks(
            read_epochs(active_tasks, default=member_epoch),
            read_tasks(standby_tasks),
            read_tasks(warmup_tasks),
        ),
        HeldTasks(
            read_epochs(active_tasks_pending_revocation, default=member_epoch),
            read_tasks(standby_tasks_pending_revocation),
            read_tasks(warmup_tasks_pending_revocation),
        ),
    )


_KNOWN_STATES: Final = frozenset({TaskState.STABLE, TaskState.UNREVOKED_TASKS, TaskState.UNRELEASED_TASKS})


def _key_and_value(make: type) -> Declaration:
    return Declaration(make, FieldRow("key", "string"), FieldRow("value", "string"))


def _tasks(name: str, structure: Declaration) -> FieldRow:
    return FieldRow(name, structure=structure, is_array=True)


_TASK_IDS: Final = Declaration(
    TaskRows, FieldRow("subtopology_id", "string"), FieldRow("partitions", "int32", is_array=True)
)
_TASK_IDS_WITH_EPOCHS: Final = Declaration(
    TaskRows,
    FieldRow("subtopology_id", "string"),
    FieldRow("partitions", "int32", is_array=True),
    FieldRow("assignment_epochs", "int32", is_array=True, is_nullable=True, tag=0, default=None),
)
_TOPIC_INFO: Final = Declaration(
    InternalTopic,
    FieldRow("name", "string"),
    FieldRow("partitions", "int32"),
    FieldRow("replication_factor", "int16"),
    FieldRow("topic_configs", structure=_key_and_value(TopicSetting), is_array=True),
)
_SUBTOPOLOGY: Final = Declaration(
    StreamsSubtopology,
    FieldRow("subtopology_id", "string"),
    FieldRow("source_topics", "string", is_array=True),
    FieldRow("source_topic_regex", "string", is_array=True),
    FieldRow("state_changelog_topics", structure=_TOPIC_INFO, is_array=True),
    FieldRow("repartition_sink_topics", "string", is_array=True),
    FieldRow("repartition_source_topics", structure=_TOPIC_INFO, is_array=True),
    FieldRow(
        "copartition_groups",
        structure=Declaration(
            CopartitionedTopics,
            FieldRow("source_topics", "int16", is_array=True),
            FieldRow("source_topic_regex", "int16", is_array=True),
            FieldRow("repartition_source_topics", "int16", is_array=True),
        ),
        is_array=True,
    ),
)
_DECLARATIONS: Final = {
    StreamsRecordKind.GROUP: Declaration(
        _group,
        FieldRow("epoch", "int32"),
        FieldRow("metadata_hash", "int64"),
        FieldRow("validated_topology_epoch", "int32", tag=0, default=NO_TOPOLOGY_EPOCH),
        FieldRow(
            "last_assignment_configs",
            structure=_key_and_value(AssignmentConfig),
            is_array=True,
            is_nullable=True,
            tag=1,
            default=None,
        ),
        FieldRow("stored_description_topology_epoch", "int32", tag=2, default=NO_TOPOLOGY_EPOCH),
        FieldRow("failed_description_topology_epoch", "int32", tag=3, default=NO_TOPOLOGY_EPOCH),
    ),
    StreamsRecordKind.MEMBER: Declaration(
        StreamsMemberValue,
        FieldRow("instance_id", "string", is_nullable=True),
        FieldRow("rack_id", "string", is_nullable=True),
        FieldRow("client_id", "string"),
        FieldRow("client_host", "string"),
        FieldRow("rebalance_timeout_ms", "int32"),
        FieldRow("topology_epoch", "int32"),
        FieldRow("process_id", "string"),
        FieldRow(
            "user_endpoint",
            structure=Declaration(UserEndpoint, FieldRow("host", "string"), FieldRow("port", "uint16")),
            is_nullable=True,
        ),
        FieldRow("client_tags", structure=_key_and_value(ClientTag), is_array=True),
    ),
    StreamsRecordKind.TARGET_EPOCH: Declaration(
        StreamsTargetEpochValue,
        FieldRow("epoch", "int32"),
        FieldRow("timestamp_ms", "int64", tag=0, default=0),
    ),
    StreamsRecordKind.TARGET: Declaration(
        _target,
        _tasks("active_tasks", _TASK_IDS),
        _tasks("standby_tasks", _TASK_IDS),
        _tasks("warmup_tasks", _TASK_IDS),
    ),
    StreamsRecordKind.CURRENT: Declaration(
        _current,
        FieldRow("member_epoch", "int32"),
        FieldRow("previous_member_epoch", "int32"),
        FieldRow("state", "int8"),
        _tasks("active_tasks", _TASK_IDS_WITH_EPOCHS),
        _tasks("standby_tasks", _TASK_IDS_WITH_EPOCHS),
        _tasks("warmup_tasks", _TASK_IDS_WITH_EPOCHS),
        _tasks("active_tasks_pending_revocation", _TASK_IDS_WITH_EPOCHS),
        _tasks("standby_tasks_pending_revocation", _TASK_IDS_WITH_EPOCHS),
        _tasks("warmup_tasks_pending_revocation", _TASK_IDS_WITH_EPOCHS),
    ),
    StreamsRecordKind.TOPOLOGY: Declaration(
        StreamsTopology,
        FieldRow("epoch", "int32"),
        FieldRow("subtopologies", structure=_SUBTOPOLOGY, is_array=True),
    ),
}
_VALUES: Final[Mapping[int, RecordValue[StreamsValue]]] = declare_values("Streams group", _DECLARATIONS)
_KINDS_OF_VALUES: Final = {
    StreamsGroupValue: StreamsRecordKind.GROUP,
    StreamsMemberValue: StreamsRecordKind.MEMBER,
    StreamsTargetEpochValue: StreamsRecordKind.TARGET_EPOCH,
    StreamsTargetValue: StreamsRecordKind.TARGET,
    StreamsCurrentValue: StreamsRecordKind.CURRENT,
    StreamsTopology: StreamsRecordKind.TOPOLOGY,
}
_KEYS: Final = declare_keys(_DECLARATIONS, KINDS_OF_MEMBER)


def encode_streams_key(kind: int, group_id: str, name: str | None = None) -> bytes:
    return _KEYS[kind].encode(GroupRecordKey(kind, group_id, name or ""))


def decode_streams_key(kind: int, key: bytes) -> GroupRecordKey:
    """The whole key, its kind included. Raises CorruptRecord."""
    return _KEYS[kind].decode(key)


def encode_streams_value(value: StreamsValue) -> bytes:
    return _VALUES[_KINDS_OF_VALUES[type(value)]].encode(value)


def decode_streams_value(kind: int, value: bytes) -> StreamsValue:
    """The value of a record of `kind`. Raises CorruptRecord."""
    return _VALUES[kind].decode(value)
