"""The kind Topic: a topic of a cluster as it is wanted, and as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek.client.topic_settings import ALLOWS_DEAD_LETTERS_KEY, TOPIC_SETTINGS
from odradek_operator.resources.conditions import (
    CONDITIONS,
    CONDITIONS_DOC,
    OBSERVED_GENERATION,
    OBSERVED_GENERATION_DOC,
    Condition,
)
from odradek_operator.resources.configuration import Configuration
from odradek_operator.resources.definition import AGE_COLUMN, READY_COLUMN, REASON_COLUMN, Column, Definition
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.schema import INT64_MAX, Choice, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule

TOPIC_NAME_PATTERN: Final = r"^[a-zA-Z0-9._-]+$"
TOPIC_NAME_LENGTH_MAX: Final = 249
CLUSTER_NAME: Final = Text(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
CLUSTER_DOC: Final = Doc("The Cluster, in the same namespace. It cannot be changed.")
PARTITIONS_MAX: Final = 10_000
PARTITIONS_SHOWN_MAX: Final = 64
WELL_LENGTH_MAX: Final = 256
# What a topic may be given at most, as the protocol has it in 16 bits; a cluster has far fewer brokers.
REPLICAS_MAX: Final = 32_767

_REFUSED: Final = {
    "leader.replication.throttled.replicas": "it is set while replicas are moved, and taken away afterwards",
    "follower.replication.throttled.replicas": "it is set while replicas are moved, and taken away afterwards",
    "remote.storage.enable": "the brokers have no tiered storage",
    "remote.log.copy.disable": "the brokers have no tiered storage",
    "remote.log.delete.on.disable": "the brokers have no tiered storage",
    "local.retention.bytes": "the brokers have no tiered storage; set retention.bytes",
    "local.retention.ms": "the brokers have no tiered storage; set retention.ms",
}
_OTHER_UNITS: Final = ("seconds", "minutes", "hours", "days")
# What people write: brokers' names for a topic's settings, other units, and what are fields here.
_MISNAMED: Final = {
    **{
        synonym: f"set {setting.key}, as topics have it"
        for setting in TOPIC_SETTINGS.values()
        for synonym in setting.synonyms
        if synonym not in TOPIC_SETTINGS and not setting.internal
    },
    **{
        f"{span}.{unit}": f"set {span}.ms, in milliseconds (an hour is 3600000)"
        for span in ("retention", "segment", "delete.retention")
        for unit in _OTHER_UNITS
    },
    "replication.factor": "set spec.replicas",
    "replicas": "set spec.replicas",
    "num.partitions": "set spec.partitions",
    "partitions": "set spec.partitions",
}
TOPIC_CONFIGURATION: Final = Configuration(
    (
        setting
        for setting in TOPIC_SETTINGS.values()
        if (not setting.internal or setting.key == ALLOWS_DEAD_LETTERS_KEY) and setting.key not in _REFUSED
    ),
    refused=_MISNAMED | _REFUSED,
)


class AdoptionPolicy(StrEnum):
    """The action for a topic that exists already."""

    ADOPT = "Adopt"
    ADOPT_IF_EQUAL = "AdoptIfEqual"
    FAIL = "Fail"


class DriftMode(StrEnum):
    """The action when the topic is changed by other means."""

    ENFORCE = "Enforce"
    WARN = "Warn"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResourceSpec:
    """The topic that is wanted."""

    RULES: ClassVar = (
        Rule(
            "self.partitions >= oldSelf.partitions",
            "partitions never shrink, since their records would be lost; make another topic with fewer",
        ),
        Rule("self.cluster == oldSelf.cluster", "cluster cannot be changed; make another Topic"),
        Rule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '')",
            "name cannot be changed; make another Topic",
        ),
        Rule(
            "!has(self.name) || (self.name != '.' && self.name != '..')",
            "name must not be . or .., as folders are",
        ),
        Rule(
            "!has(self.name) || !self.name.startsWith('__')",
            "the brokers' own topics begin with __; name another one",
        ),
        Rule(
            "!has(self.replicas) || !has(self.config) || !has(self.config.min__dot__insync__dot__replicas)"
            " || int(self.config.min__dot__insync__dot__replicas) <= self.replicas",
            "min.insync.replicas must not be more than replicas, or nothing could be written with acks=all",
        ),
        Rule(
            "!has(self.config) || !has(self.config.min__dot__compaction__dot__lag__dot__ms)"
            " || !has(self.config.max__dot__compaction__dot__lag__dot__ms)"
            " || int(self.config.min__dot__compaction__dot__lag__dot__ms)"
            " <= int(self.config.max__dot__compaction__dot__lag__dot__ms)",
            "min.compaction.lag.ms must not be more than max.compaction.lag.ms",
        ),
    )

    cluster: Annotated[str, CLUSTER_NAME, CLUSTER_DOC]
    name: Annotated[
        str | None,
        Text(
            min_length=1,
            max_length=TOPIC_NAME_LENGTH_MAX,
            pattern=TOPIC_NAME_PATTERN,
            what="a topic's name: letters, digits, ., _ and -",
        ),
        Doc("The topic's name, where it is not the resource's. It cannot be changed."),
    ] = None
    partitions: Annotated[
        int,
        Whole(minimum=1, maximum=PARTITIONS_MAX),
        Doc(
            "How many partitions there are. May grow, which moves keys to other partitions, and never shrinks."
        ),
    ] = 1
    replicas: Annotated[
        int | None,
        Whole(minimum=1, maximum=REPLICAS_MAX),
        Doc(
            "On how many brokers each partition is kept. Left out: the cluster's default, and then as it is."
        ),
    ] = None
    config: Annotated[
        Mapping[str, str] | None,
        TOPIC_CONFIGURATION,
        Doc("The topic's own settings by Kafka's keys; for others the brokers' hold."),
    ] = None
    deletion_policy: Annotated[
        DeletionPolicy,
        Choice(DeletionPolicy),
        Doc("Whether the topic, with its records, is deleted when this resource is."),
    ] = DeletionPolicy.RETAIN
    adoption_policy: Annotated[
        AdoptionPolicy,
        Choice(AdoptionPolicy),
        Doc(
            "What to do with a topic of that name that was there before: change it, take it only if equal, or not."
        ),
    ] = AdoptionPolicy.ADOPT
    drift: Annotated[
        DriftMode,
        Choice(DriftMode),
        Doc("What to do when the topic is changed by other means: change it back, report it, or nothing."),
    ] = DriftMode.ENFORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as it is."""

    partition: Annotated[int, Whole(), Doc("Its number.")]
    leader: Annotated[int, Whole(minimum=-1), Doc("The broker that leads it; -1 for none.")] = -1
    replicas: Annotated[
        tuple[int, ...],
        Listing(Whole(), max_items=64),
        Doc("The brokers that keep it, the preferred leader first."),
    ] = ()
    in_sync: Annotated[
        tuple[int, ...], Listing(Whole(), max_items=64), Doc("Those that have all of it.")
    ] = ()
    start_offset: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("The first record kept.")] = None
    end_offset: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("The next record to be written.")] = None
    size_bytes: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("What its leader keeps on disk.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasChange:
    """A change of the replication factor that is under way."""

    wanted: Annotated[int, Whole(minimum=1), Doc("The number of replicas that is being made.")]
    partitions_done: Annotated[int, Whole(), Doc("Partitions that have it.")]
    partitions_moving: Annotated[int, Whole(), Doc("Partitions that are being copied.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """The topic as it was found."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    topic_name: Annotated[str | None, Text(max_length=TOPIC_NAME_LENGTH_MAX), Doc("The topic's name.")] = None
    topic_id: Annotated[
        str | None, Text(max_length=36), Doc("The id of the topic that this resource owns, as a UUID.")
    ] = None
    owner_uid: Annotated[
        str | None,
        Text(max_length=64),
        Doc("The uid of the resource that owns the topic: this one's, once it does."),
    ] = None
    creating: Annotated[
        str | None,
        Text(max_length=64),
        Doc(
            "Noted before the topic is made, so that it is known as this resource's own after an interruption."
        ),
    ] = None
    applied_generation: Annotated[
        int | None,
        Whole(maximum=INT64_MAX),
        Doc("The generation whose spec was last put in force as a whole."),
    ] = None
    partitions: Annotated[int | None, Whole(), Doc("How many partitions there are.")] = None
    replicas: Annotated[
        int | None, Whole(), Doc("On how many brokers each partition is kept; the fewest.")
    ] = None
    under_replicated: Annotated[int | None, Whole(), Doc("Partitions of which a replica is not in sync.")] = (
        None
    )
    offline: Annotated[int | None, Whole(), Doc("Partitions without a leader.")] = None
    records: Annotated[
        int | None, Whole(maximum=INT64_MAX), Doc("The sum of all partitions' end minus start offsets.")
    ] = None
    size_bytes: Annotated[int | None, Whole(maximum=INT64_MAX), Doc("What the leaders keep on disk.")] = None
    replicas_change: Annotated[
        ReplicasChange | None, Nested(ReplicasChange), Doc("The change of the replication factor under way.")
    ] = None
    well_partitions: Annotated[
        str | None,
        Text(max_length=WELL_LENGTH_MAX),
        Doc("Partitions that have a leader and all of their replicas in sync, as 0-5,7."),
    ] = None
    partition_states: Annotated[
        tuple[PartitionStatus, ...],
        Listing(Nested(PartitionStatus), max_items=PARTITIONS_SHOWN_MAX, keys=("partition",)),
        Doc(
            "Partitions that have no leader, lack a replica in sync, or move; "
            f"the first {PARTITIONS_SHOWN_MAX} of them. Offsets and sizes may be minutes old."
        ),
    ] = ()


TOPIC: Final = Definition(
    kind="Topic",
    plural="topics",
    short_name="ot",
    doc="A topic of a Cluster.",
    spec=TopicResourceSpec,
    status=TopicStatus,
    rules=(
        Rule(
            f"has(self.spec.name) || size(self.metadata.name) <= {TOPIC_NAME_LENGTH_MAX}",
            f"a topic's name has at most {TOPIC_NAME_LENGTH_MAX} characters; set spec.name",
        ),
    ),
    columns=(
        Column(name="Cluster", path=".spec.cluster"),
        Column(name="Partitions", path=".status.partitions", type="integer"),
        Column(name="Replicas", path=".status.replicas", type="integer"),
        READY_COLUMN,
        REASON_COLUMN,
        Column(name="Records", path=".status.records", type="integer", priority=1),
        Column(name="Bytes", path=".status.sizeBytes", type="integer", priority=1),
        Column(name="Id", path=".status.topicId", priority=1),
        AGE_COLUMN,
    ),
)
