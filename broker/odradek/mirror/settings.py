"""The settings of a mirror, declared once: MirrorMaker 2's keys and defaults, and a few of our own.

`FlowSettings` are of one flow, source->target; a key may stand alone (for all flows) or behind `SOURCE->TARGET.`, which
goes first. `MirrorSettings` are of the process. `settings_file` reads a property file into both.
`docs/reference/mirror.md` is generated from the declarations.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from odradek.mirror.setting_values import (
    NamePatterns,
    declared,
    one_of,
    true_or_false,
    whole_number,
    word,
)

NAME_PATTERN: Final = "[A-Za-z0-9._-]{1,100}"
GROUP_PREFIX: Final = "odradek-mirror."
"""The groups of mirrors themselves, whose offsets mean nothing elsewhere, begin so."""
DEFAULT_POLICY: Final = "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "IdentityReplicationPolicy"
_JAVA_PACKAGE: Final = "org.apache.kafka.connect.mirror."


class DeliveryGuarantee(StrEnum):
    """Values of exactly.once.source.support. `PREPARING` is MirrorMaker's first step of a rolling change, and here
    exactly once as well.
    """

    ENABLED = "enabled"
    PREPARING = "preparing"
    DISABLED = "disabled"


class Side(StrEnum):
    """One of a flow's clusters."""

    SOURCE = "source"
    TARGET = "target"


class OffsetReset(StrEnum):
    """Where a partition begins that the mirror has no position of."""

    EARLIEST = "earliest"
    LATEST = "latest"


def policy_name(text: str) -> str:
    """A replication policy by its Java class, in full or short."""
    short = text.removeprefix(_JAVA_PACKAGE)
    if short not in (DEFAULT_POLICY, IDENTITY_POLICY):
        raise ValueError(f"takes {_JAVA_PACKAGE}{DEFAULT_POLICY} or {_JAVA_PACKAGE}{IDENTITY_POLICY}")
    return short


def _switch(key: str, default: str, meaning: str) -> bool:
    return declared(key, default, true_or_false, meaning)


def _seconds(key: str, default: str, meaning: str) -> int:
    return declared(key, default, whole_number(1, 2**31 - 1), meaning)


def _replicas(key: str, default: str, meaning: str) -> int:
    return declared(key, default, whole_number(-1, 2**15 - 1), meaning)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster: its alias, and the properties of a client of it (`client.properties` of Kafka's clients)."""

    alias: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """The settings of one flow, from one source to the target."""

    source: ClusterSettings
    target: ClusterSettings
    enabled: bool = declared("enabled", "false", true_or_false, "Whether topics are mirrored.")
    topics: NamePatterns = declared(
        "topics", ".*", NamePatterns, "Names and regular expressions of the topics to mirror."
    )
    topics_exclude: NamePatterns = declared(
        "topics.exclude",
        r".*[\-\.]internal, .*\.replica, __.*",
        NamePatterns,
        "Those of topics that are not mirrored; they go first.",
    )
    groups: NamePatterns = declared(
        "groups",
        ".*",
        NamePatterns,
        "Names and regular expressions of the groups whose offsets are translated.",
    )
    groups_exclude: NamePatterns = declared(
        "groups.exclude",
        "console-consumer-.*, connect-.*, __.*",
        NamePatterns,
        "Those of groups that are left out; they go first.",
    )
    refresh_topics_enabled: bool = _switch(
        "refresh.topics.enabled", "true", "Whether new topics and partitions are looked for."
    )
    refresh_topics_interval_seconds: int = _seconds(
        "refresh.topics.interval.seconds", "600", "How often new topics and partitions are looked for."
    )
    refresh_groups_enabled: bool = _switch(
        "refresh.groups.enabled", "true", "Whether new groups are looked for."
    )
    refresh_groups_interval_seconds: int = _seconds(
        "refresh.groups.interval.seconds", "600", "How often new groups are looked for."
    )
    sync_topic_configs_enabled: bool = _switch(
        "sync.topic.configs.enabled", "true", "Whether settings of topics are mirrored."
    )
    sync_topic_configs_interval_seconds: int = _seconds(
        "sync.topic.configs.interval.seconds", "600", "How often settings of topics are compared."
    )
    sync_topic_acls_enabled: bool = _switch(
        "sync.topic.acls.enabled",
        "true",
        "Whether ACLs of topics are mirrored, without those that allow writing.",
    )
    sync_topic_acls_interval_seconds: int = _seconds(
        "sync.topic.acls.interval.seconds", "600", "How often ACLs of topics are compared."
    )
    config_properties_exclude: NamePatterns = declared(
        "config.properties.exclude",
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
        r"min\.insync\.replicas",
        NamePatterns,
        "Names and regular expressions of the topics' settings that are not mirrored.",
    )
    use_defaults_from: Side = declared(
        "use.defaults.from",
        "target",
        one_of(Side),
        "`target`, or `source` to mirror settings also where the original has a default.",
    )
    sync_group_offsets_enabled: bool = _switch(
        "sync.group.offsets.enabled",
        "false",
        "Whether translated offsets are written to groups of the target that have no members.",
    )
    sync_group_offsets_interval_seconds: int = _seconds(
        "sync.group.offsets.interval.seconds", "60", "How often they are written."
    )
    emit_checkpoints_enabled: bool = _switch(
        "emit.checkpoints.enabled", "true", "Whether checkpoints of groups are written."
    )
    emit_checkpoints_interval_seconds: int = _seconds(
        "emit.checkpoints.interval.seconds", "60", "How often checkpoints are written."
    )
    emit_heartbeats_enabled: bool = _switch(
        "emit.heartbeats.enabled", "true", "Whether heartbeats are written."
    )
    emit_heartbeats_interval_seconds: int = _seconds(
        "emit.heartbeats.interval.seconds", "1", "How often heartbeats are written."
    )
    heartbeats_replication_enabled: bool = _switch(
        "heartbeats.replication.enabled",
        "true",
        "Whether the source's topic `heartbeats` is mirrored, whatever `topics` says.",
    )
    emit_offset_syncs_enabled: bool = _switch(
        "emit.offset-syncs.enabled",
        "true",
        "Whether offset syncs are written. Without them, checkpoints need what this process has seen itself.",
    )
    offset_syncs_topic_location: Side = declared(
        "offset-syncs.topic.location",
        "source",
        one_of(Side),
        "The cluster that has the topic of offset syncs: `source` or `target`.",
    )
    offset_lag_max: int = declared(
        "offset.lag.max",
        "100",
        whole_number(0),
        "How many offsets of the target an offset sync may be behind before the next one is due. "
        "Syncs of a partition are one second apart at least, and five at most while records pass.",
    )
    replication_factor: int = _replicas(
        "replication.factor", "2", "Replicas of mirrored topics; -1 is the target's default."
    )
    offset_syncs_topic_replication_factor: int = _replicas(
        "offset-syncs.topic.replication.factor", "3", "Replicas of the topic of offset syncs."
    )
    checkpoints_topic_replication_factor: int = _replicas(
        "checkpoints.topic.replication.factor", "3", "Replicas of the topic of checkpoints."
    )
    heartbeats_topic_replication_factor: int = _replicas(
        "heartbeats.topic.replication.factor", "3", "Replicas of the topic of heartbeats."
    )
    replication_policy_class: str = declared(
        "replication.policy.class",
        f"{_JAVA_PACKAGE}{DEFAULT_POLICY}",
        policy_name,
        "How topics are named at the target: `DefaultReplicationPolicy` (SOURCE.topic), `IdentityReplicationPolicy`.",
    )
    replication_policy_separator: str = declared(
        "replication.policy.separator",
        ".",
        word(r"[A-Za-z0-9._-]{1,20}", "letters, digits, '.', '_' and '-'"),
        "What stands between the source's alias and the topic's name.",
    )
    replication_policy_internal_separator_enabled: bool = _switch(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "Whether names of internal topics have that separator too.",
    )
    offset_reset: OffsetReset = declared(
        "consumer.auto.offset.reset",
        "earliest",
        one_of(OffsetReset),
        "Where a partition begins that the mirror has no position of: `earliest` or `latest`.",
    )
    mirror_maker_offsets_topic: str = declared(
        "mirror.maker.offsets.topic",
        "",
        word(r"[A-Za-z0-9._-]{0,249}", "the name of a topic"),
        "The topic at the target where MirrorMaker 2 left its positions, `mm2-offsets.SOURCE.internal`. A partition "
        "that the mirror has no position of begins where MirrorMaker stopped.",
    )
    delivery: DeliveryGuarantee = declared(
        "exactly.once.source.support",
        "enabled",
        one_of(DeliveryGuarantee),
        "`enabled`: exactly once, by transactions. `disabled`: at least once. MirrorMaker's default is disabled.",
    )
    tasks_max: int = declared(
        "tasks.max",
        "1",
        whole_number(1, 2**31 - 1),
        "Has no effect: workers share partitions, and each has one transaction at a time.",
    )
    transaction_bytes_max: int = declared(
        "transaction.bytes.max", "4194304", whole_number(1, 2**30), "Bytes at which a transaction is ended."
    )
    transaction_ms_max: int = declared(
        "transaction.ms.max", "100", whole_number(1, 60_000), "The age at which a transaction is ended."
    )
    transaction_timeout_ms: int = declared(
        "transaction.timeout.ms",
        "30000",
        whole_number(1_000, 900_000),
        "The age at which the target aborts the transaction of a worker that hangs.",
    )

    @property
    def is_exactly_once(self) -> bool:
        """Whether records and positions share transactions."""
        return self.delivery is not DeliveryGuarantee.DISABLED

    @property
    def label(self) -> str:
        """The flow's name in logs and errors: `source->target`."""
        return f"{self.source.alias}->{self.target.alias}"


def default_worker_id() -> str:
    """The host's name and the process's number."""
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """The process: its target, and a flow for each source."""

    target: ClusterSettings
    flows: tuple[FlowSettings, ...]
    """The enabled ones, which mirror topics."""
    heartbeat_flows: tuple[FlowSettings, ...] = ()
    """Flows to this target that are not enabled, and still emit heartbeats, as MirrorMaker's do."""
    reverse_heartbeat_flows: tuple[FlowSettings, ...] = ()
    """Flows back to the sources that are not enabled, and still emit heartbeats, which the enabled ones mirror."""
    warnings: tuple[str, ...] = ()
    name: str = declared(
        "name",
        "mirror",
        word(NAME_PATTERN, "up to 100 letters, digits, '.', '_' and '-'"),
        "The mirror's name, a part of its groups' names. Workers of one mirror share it.",
    )
    worker_id: str = declared(
        "worker.id",
        "",
        word("(?s).{0,200}", "up to 200 characters"),
        "The worker's name in logs; by default the host's name and the process's number.",
    )
    bytes_per_second_max: int = declared(
        "bytes.per.second.max",
        "0",
        whole_number(0),
        "Bytes that this process reads in a second; 0 is no limit.",
    )

    def group_id(self, flow: FlowSettings) -> str:
        """The group at the target that holds a flow's positions and shares its partitions."""
        return f"{GROUP_PREFIX}{self.name}.{flow.source.alias}"
