"""The kind ConsumerGroup: a group of consumers as it is expected, what is to become of its offsets, how it fares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.conditions import (
    CONDITIONS,
    CONDITIONS_DOC,
    OBSERVED_GENERATION,
    OBSERVED_GENERATION_DOC,
    Condition,
)
from odradek_operator.resources.definition import (
    AGE_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    Column,
    Definition,
    ScaleSubresource,
)
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.group_positions import GroupPosition, ResetPosition
from odradek_operator.resources.group_scaling import SCALED_REPLICAS_MAX, BacklogScaling, ScalingStatus
from odradek_operator.resources.schema import INT64_MAX, Choice, Flag, Number, Text, Whole
from odradek_operator.resources.share_group import (
    GROUP_CONFIGURATION,
    DeadLetterTopicStatus,
    DeadLetterWish,
    GroupType,
)
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule, Table
from odradek_operator.resources.topic import (
    CLUSTER_DOC,
    CLUSTER_NAME,
    TOPIC_NAME_LENGTH_MAX,
    TOPIC_NAME_PATTERN,
)
from odradek_operator.resources.workloads import Workload

GROUP_ID_LENGTH_MAX: Final = 255
TOPICS_MAX: Final = 256
MEMBERS_SHOWN_MAX: Final = 32
ASSIGNED_SHOWN_MAX: Final = 32
PARTITIONS_SHOWN_MAX: Final = 64
SETTINGS_MAX: Final = 256
# Offsets kept for an undo, in the resource's own status: an object has room for a million bytes or so.
SNAPSHOT_PARTITIONS_MAX: Final = 10_000

_TOPIC: Final = Text(
    min_length=1, max_length=TOPIC_NAME_LENGTH_MAX, pattern=TOPIC_NAME_PATTERN, what="a topic's name"
)
_OFFSETS: Final = Table(
    Table(Whole(maximum=INT64_MAX), max_entries=SNAPSHOT_PARTITIONS_MAX), max_entries=TOPICS_MAX
)


class WhenActive(StrEnum):
    """The action of a reset when consumers run."""

    REFUSE = "Refuse"
    WAIT = "Wait"
    FENCE = "Fence"


class ResetPhase(StrEnum):
    """The phase of a reset."""

    WAITING = "Waiting"
    FENCING = "Fencing"
    APPLYING = "Applying"
    DONE = "Done"
    REFUSED = "Refused"
    REPEATED = "Repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReset:
    """A change of the group's offsets, made once for each new id."""

    id: Annotated[
        str,
        Text(min_length=1, max_length=128),
        Doc(
            "A name of your choice. A reset runs once for each new one, also where this resource is deleted and "
            "applied again, or goes back to an earlier id."
        ),
    ]
    to: Annotated[ResetPosition, Nested(ResetPosition), Doc("Where the group continues.")]
    topics: Annotated[
        tuple[str, ...],
        Listing(_TOPIC, max_items=TOPICS_MAX),
        Doc("Only these topics. Default: the group's topics above, or all that it has committed."),
    ] = ()
    when_active: Annotated[
        WhenActive,
        Choice(WhenActive),
        Doc(
            "What to do while consumers run: nothing, wait until they are gone, or remove them for the moment that it "
            "takes. They rejoin by themselves."
        ),
    ] = WhenActive.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMembers:
    """The expected number of consumers."""

    RULES: ClassVar = (
        Rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not be more than max"),
    )

    min: Annotated[int | None, Whole(), Doc("At least so many.")] = None
    max: Annotated[int | None, Whole(), Doc("At most so many.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagObjective:
    """The largest lag that the group may have."""

    messages: Annotated[
        int | None, Whole(maximum=INT64_MAX), Doc("Records not yet read, over all partitions.")
    ] = None
    seconds: Annotated[
        int | None,
        Whole(),
        Doc("Age of the oldest record not yet read, of the partition that is furthest behind."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSpec:
    """The group that is expected."""

    RULES: ClassVar = (
        Rule("self.cluster == oldSelf.cluster", "cluster cannot be changed; make another ConsumerGroup"),
        Rule(
            "(has(self.groupId) ? self.groupId : '') == (has(oldSelf.groupId) ? oldSelf.groupId : '')",
            "groupId cannot be changed; make another ConsumerGroup",
        ),
        Rule(
            "(has(self.type) ? self.type : 'Consumer') == (has(oldSelf.type) ? oldSelf.type : 'Consumer')",
            "type cannot be changed; make another ConsumerGroup",
        ),
        Rule(
            "!has(self.deadLetters) || (has(self.type) && self.type == 'Share')",
            "deadLetters needs type: Share",
        ),
        Rule("!has(self.scaling) || has(self.workload)", "scaling needs workload: what runs the consumers"),
        Rule(
            "!has(self.scaling) || !has(self.replicas)",
            "scaling and replicas exclude each other: the backlog says how many consumers there are, or you do",
        ),
        Rule(
            "!has(self.initialPosition) || size(self.topics) > 0",
            "initialPosition needs topics: a group that has committed nothing does not show which it will read",
        ),
        Rule(
            "!has(oldSelf.reset) || !has(self.reset) || self.reset.id != oldSelf.reset.id"
            " || self.reset == oldSelf.reset",
            "a reset that is changed needs a new id: one with an id that is known does not run again",
        ),
    )

    cluster: Annotated[str, CLUSTER_NAME, CLUSTER_DOC]
    group_id: Annotated[
        str | None,
        Text(min_length=1, max_length=GROUP_ID_LENGTH_MAX),
        Doc("The group's id, where it is not the resource's name. It cannot be changed."),
    ] = None
    type: Annotated[
        GroupType,
        Choice(GroupType),
        Doc(
            "Consumer: each partition is read by one member. Share: a queue, whose records are shared out one by one "
            "(KIP-932). It cannot be changed."
        ),
    ] = GroupType.CONSUMER
    topics: Annotated[
        tuple[str, ...], Listing(_TOPIC, max_items=TOPICS_MAX), Doc("The topics that the group is to read.")
    ] = ()
    config: Annotated[
        Mapping[str, str] | None,
        GROUP_CONFIGURATION,
        Doc(
            "The group's own settings by Kafka's keys. One that is taken away here goes back to the brokers' value; "
            "settings that others made are left."
        ),
    ] = None
    dead_letters: Annotated[
        DeadLetterWish | None,
        Nested(DeadLetterWish),
        Doc("For type Share: where records go that are rejected, or delivered too often (KIP-1191)."),
    ] = None
    members: Annotated[
        ExpectedMembers | None,
        Nested(ExpectedMembers),
        Doc("How many consumers there should be. A condition reports it."),
    ] = None
    replicas: Annotated[
        int | None,
        Whole(maximum=SCALED_REPLICAS_MAX),
        Doc(
            "How many consumers are wanted. It is handed on to the workload. `kubectl scale` and autoscalers change "
            "it, where it has a value to begin with."
        ),
    ] = None
    workload: Annotated[
        Workload | None,
        Nested(Workload),
        Doc(
            "What runs the consumers, to be scaled to `replicas` or by `scaling`. The Cluster must name it in "
            "`scalableWorkloads`."
        ),
    ] = None
    scaling: Annotated[
        BacklogScaling | None,
        Nested(BacklogScaling),
        Doc("Scale the workload by the records that wait."),
    ] = None
    initial_position: Annotated[
        GroupPosition | None,
        Nested(GroupPosition),
        Doc(
            "Where the group begins. Committed once, while the group has committed nothing and has no consumer."
        ),
    ] = None
    reset: Annotated[GroupReset | None, Nested(GroupReset), Doc("A change of the group's offsets.")] = None
    lag: Annotated[
        LagObjective | None,
        Nested(LagObjective),
        Doc("How far behind the group may be. A condition and events report it."),
    ] = None
    deletion_policy: Annotated[
        DeletionPolicy,
        Choice(DeletionPolicy),
        Doc("Whether the group, with its offsets, is deleted when this resource is."),
    ] = DeletionPolicy.RETAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One consumer."""

    member_id: Annotated[str, Text(max_length=512), Doc("Its id.")]
    instance_id: Annotated[str | None, Text(max_length=512), Doc("Its instance id, where it has one.")] = None
    client_id: Annotated[str | None, Text(max_length=512), Doc("What it calls itself.")] = None
    host: Annotated[str | None, Text(max_length=256), Doc("From where it came.")] = None
    assigned: Annotated[int, Whole(), Doc("How many partitions it reads.")] = 0
    assignment: Annotated[
        tuple[str, ...],
        Listing(Text(max_length=TOPIC_NAME_LENGTH_MAX + 8), max_items=ASSIGNED_SHOWN_MAX),
        Doc(f"Which ones, the first {ASSIGNED_SHOWN_MAX} of them."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of the group in one partition."""

    topic: Annotated[str, Text(max_length=TOPIC_NAME_LENGTH_MAX), Doc("The topic.")]
    partition: Annotated[int, Whole(), Doc("The partition.")]
    committed: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("The next record to be read.")] = None
    end: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("The next record to be written.")] = None
    messages: Annotated[int, Whole(maximum=INT64_MAX), Doc("Records not yet read.")] = 0
    seconds: Annotated[float | None, Number(minimum=0), Doc("Age of the first of them.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagStatus:
    """The lag of the group over all partitions."""

    messages: Annotated[int, Whole(maximum=INT64_MAX), Doc("Records not yet read, over all partitions.")] = 0
    seconds: Annotated[
        float | None, Number(minimum=0), Doc("Age of the oldest of them; absent where it is not known.")
    ] = None
    partitions_behind: Annotated[int, Whole(), Doc("Partitions with records not yet read.")] = 0
    within_objective: Annotated[bool | None, Flag(), Doc("Whether that is within `lag`.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStatus:
    """The last reset."""

    id: Annotated[str, Text(max_length=128), Doc("Its id.")]
    phase: Annotated[ResetPhase, Choice(ResetPhase), Doc("How far it is.")]
    message: Annotated[str, Text(max_length=4096), Doc("What happened, and what to do.")] = ""
    fenced: Annotated[bool, Flag(), Doc("Whether consumers are kept out for it now.")] = False
    started_at: Annotated[str | None, Text(form="date-time", max_length=64), Doc("When it began.")] = None
    finished_at: Annotated[str | None, Text(form="date-time", max_length=64), Doc("When it ended.")] = None
    target: Annotated[
        Mapping[str, Mapping[str, int]] | None,
        _OFFSETS,
        Doc("Where the group continues, by topic and partition."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSnapshot:
    """The committed offsets of the group before the last reset, for `to: {at: Snapshot}`."""

    reset_id: Annotated[str, Text(max_length=128), Doc("The reset that it was taken for.")]
    taken_at: Annotated[str, Text(form="date-time", max_length=64), Doc("When.")]
    offsets: Annotated[
        Mapping[str, Mapping[str, int]], _OFFSETS, Doc("Committed offsets by topic and partition.")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupStatus:
    """The group as it was found. Offsets and lag are as old as `measuredAt`."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    group_id: Annotated[str | None, Text(max_length=GROUP_ID_LENGTH_MAX), Doc("The group's id.")] = None
    owner_uid: Annotated[
        str | None,
        Text(max_length=64),
        Doc("The uid of the resource that governs the group: this one's, once it does."),
    ] = None
    state: Annotated[str | None, Text(max_length=64), Doc("As the coordinator says: Stable, Empty, …")] = None
    type: Annotated[
        str | None,
        Text(max_length=64),
        Doc("The protocol of its members: classic, consumer, streams, share or zookeeper."),
    ] = None
    coordinator: Annotated[int | None, Whole(minimum=-1), Doc("The broker that coordinates it.")] = None
    replicas: Annotated[int | None, Whole(), Doc("How many consumers there are.")] = None
    selector: Annotated[str | None, Text(max_length=4096), Doc("The workload's pods, for autoscalers.")] = (
        None
    )
    members: Annotated[
        tuple[MemberStatus, ...],
        Listing(Nested(MemberStatus), max_items=MEMBERS_SHOWN_MAX),
        Doc(f"The consumers, the first {MEMBERS_SHOWN_MAX} of them."),
    ] = ()
    settings: Annotated[
        tuple[str, ...],
        Listing(Text(max_length=256), max_items=SETTINGS_MAX),
        Doc("The keys of the settings that this resource has made."),
    ] = ()
    scaling: Annotated[
        ScalingStatus | None, Nested(ScalingStatus), Doc("How many consumers the backlog needs.")
    ] = None
    dead_letters: Annotated[
        DeadLetterTopicStatus | None, Nested(DeadLetterTopicStatus), Doc("What the group has given up.")
    ] = None
    lag: Annotated[LagStatus | None, Nested(LagStatus), Doc("How far behind the group is.")] = None
    partitions: Annotated[
        tuple[PartitionLag, ...],
        Listing(Nested(PartitionLag), max_items=PARTITIONS_SHOWN_MAX),
        Doc(f"The {PARTITIONS_SHOWN_MAX} partitions that are furthest behind."),
    ] = ()
    measured_at: Annotated[
        str | None,
        Text(form="date-time", max_length=64),
        Doc("When members, offsets and lag last were other ones."),
    ] = None
    started_from: Annotated[
        str | None,
        Text(max_length=256),
        Doc(
            "What became of initialPosition: where the group was made to begin, or that it had begun by itself."
        ),
    ] = None
    reset: Annotated[ResetStatus | None, Nested(ResetStatus), Doc("The last reset.")] = None
    snapshot: Annotated[
        OffsetSnapshot | None, Nested(OffsetSnapshot), Doc("Where the group was before it.")
    ] = None


CONSUMER_GROUP: Final = Definition(
    kind="ConsumerGroup",
    plural="consumergroups",
    short_name="ocg",
    doc="A group of consumers of a Cluster, or a queue that its members share.",
    spec=ConsumerGroupSpec,
    status=ConsumerGroupStatus,
    scale=ScaleSubresource(wanted=".spec.replicas", actual=".status.replicas", selector=".status.selector"),
    columns=(
        Column(name="Cluster", path=".spec.cluster"),
        Column(name="Type", path=".status.type"),
        Column(name="State", path=".status.state"),
        Column(name="Members", path=".status.replicas", type="integer"),
        Column(name="Lag", path=".status.lag.messages", type="integer"),
        Column(name="Lag seconds", path=".status.lag.seconds", type="number"),
        READY_COLUMN,
        REASON_COLUMN,
        AGE_COLUMN,
    ),
)
