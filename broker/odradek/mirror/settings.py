"""The settings of a mirror, declared once: MirrorMaker 2's keys and defaults, and a few of our own.

`FlowSettings` are of one flow, source->target; a key may stand alone (for all flows) or behind `SOURCE->TARGET.`, which
goes first. `MirrorSettings` are of the process. `settings_file` reads a property file into both.
`docs/reference/mirror.md` is generated from the declarations.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from odradek.foundation.settings.declaration import (
    Kind,
    Matching,
    Setting,
    boolean,
    integer,
    long,
    member,
    text,
)
from odradek.foundation.settings.fields import setting_field

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


class NamePatterns:
    """Names and regular expressions with commas between them, as MirrorMaker's `topics`; a name must match whole."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part.strip() for part in text.split(",") if part.strip()]
        try:
            self._found = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None
        except re.error as failure:
            raise ValueError(f"regular expressions with commas between them ({failure})") from failure

    def matches(self, name: str) -> bool:
        """Whether one of the patterns is for this name."""
        return self._found is not None and self._found.fullmatch(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePatterns) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"NamePatterns({self.text!r})"


def policy_name(java_class: str) -> str:
    """A replication policy by its Java class, in full or short. Raises ValueError."""
    short = java_class.removeprefix(_JAVA_PACKAGE)
    if short not in (DEFAULT_POLICY, IDENTITY_POLICY):
        raise ValueError(f"{_JAVA_PACKAGE}{DEFAULT_POLICY} or {_JAVA_PACKAGE}{IDENTITY_POLICY}")
    return short


def _seconds(default: int, meaning: str) -> Setting:
    return integer(default, meaning, 1)  # type: ignore[no-any-return]


def _replicas(default: int, meaning: str) -> Setting:
    return integer(default, meaning, -1, kind=Kind.SHORT)  # type: ignore[no-any-return]


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
    enabled: bool = setting_field("enabled", boolean(False, "Whether topics are mirrored."))
    topics: NamePatterns = setting_field(
        "topics", text(".*", "Names and regular expressions of the topics to mirror.", into=NamePatterns)
    )
    topics_exclude: NamePatterns = setting_field(
        "topics.exclude",
        text(
            r".*[\-\.]internal, .*\.replica, __.*",
            "Those of topics that are not mirrored; they go first.",
            into=NamePatterns,
        ),
    )
    groups: NamePatterns = setting_field(
        "groups",
        text(
            ".*",
            "Names and regular expressions of the groups whose offsets are translated.",
            into=NamePatterns,
        ),
    )
    groups_exclude: NamePatterns = setting_field(
        "groups.exclude",
        text(
            "console-consumer-.*, connect-.*, __.*",
            "Those of groups that are left out; they go first.",
            into=NamePatterns,
        ),
    )
    refresh_topics_enabled: bool = setting_field(
        "refresh.topics.enabled", boolean(True, "Whether new topics and partitions are looked for.")
    )
    refresh_topics_interval_seconds: int = setting_field(
        "refresh.topics.interval.seconds",
        _seconds(600, "How often new topics and partitions are looked for."),
    )
    refresh_groups_enabled: bool = setting_field(
        "refresh.groups.enabled", boolean(True, "Whether new groups are looked for.")
    )
    refresh_groups_interval_seconds: int = setting_field(
        "refresh.groups.interval.seconds", _seconds(600, "How often new groups are looked for.")
    )
    sync_topic_configs_enabled: bool = setting_field(
        "sync.topic.configs.enabled", boolean(True, "Whether settings of topics are mirrored.")
    )
    sync_topic_configs_interval_seconds: int = setting_field(
        "sync.topic.configs.interval.seconds", _seconds(600, "How often settings of topics are compared.")
    )
    sync_topic_acls_enabled: bool = setting_field(
        "sync.topic.acls.enabled",
        boolean(True, "Whether ACLs of topics are mirrored, without those that allow writing."),
    )
    sync_topic_acls_interval_seconds: int = setting_field(
        "sync.topic.acls.interval.seconds", _seconds(600, "How often ACLs of topics are compared.")
    )
    config_properties_exclude: NamePatterns = setting_field(
        "config.properties.exclude",
        text(
            r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
            r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
            r"min\.insync\.replicas",
            "Names and regular expressions of the topics' settings that are not mirrored.",
            into=NamePatterns,
        ),
    )
    use_defaults_from: Side = setting_field(
        "use.defaults.from",
        member(
            Side.TARGET, "`target`, or `source` to mirror settings also where the original has a default."
        ),
    )
    sync_group_offsets_enabled: bool = setting_field(
        "sync.group.offsets.enabled",
        boolean(
            False, "Whether translated offsets are written to groups of the target that have no members."
        ),
    )
    sync_group_offsets_interval_seconds: int = setting_field(
        "sync.group.offsets.interval.seconds", _seconds(60, "How often they are written.")
    )
    emit_checkpoints_enabled: bool = setting_field(
        "emit.checkpoints.enabled", boolean(True, "Whether checkpoints of groups are written.")
    )
    emit_checkpoints_interval_seconds: int = setting_field(
        "emit.checkpoints.interval.seconds", _seconds(60, "How often checkpoints are written.")
    )
    emit_heartbeats_enabled: bool = setting_field(
        "emit.heartbeats.enabled", boolean(True, "Whether heartbeats are written.")
    )
    emit_heartbeats_interval_seconds: int = setting_field(
        "emit.heartbeats.interval.seconds", _seconds(1, "How often heartbeats are written.")
    )
    heartbeats_replication_enabled: bool = setting_field(
        "heartbeats.replication.enabled",
        boolean(True, "Whether the source's topic `heartbeats` is mirrored, whatever `topics` says."),
    )
    emit_offset_syncs_enabled: bool = setting_field(
        "emit.offset-syncs.enabled",
        boolean(
            True,
            "Whether offset syncs are written. Without them, checkpoints need what this process has seen itself.",
        ),
    )
    offset_syncs_topic_location: Side = setting_field(
        "offset-syncs.topic.location",
        member(Side.SOURCE, "The cluster that has the topic of offset syncs: `source` or `target`."),
    )
    offset_lag_max: int = setting_field(
        "offset.lag.max",
        long(
            100,
            "How many offsets of the target an offset sync may be behind before the next one is due. "
            "Syncs of a partition are one second apart at least, and five at most while records pass.",
            0,
        ),
    )
    replication_factor: int = setting_field(
        "replication.factor", _replicas(2, "Replicas of mirrored topics; -1 is the target's default.")
    )
    offset_syncs_topic_replication_factor: int = setting_field(
        "offset-syncs.topic.replication.factor", _replicas(3, "Replicas of the topic of offset syncs.")
    )
    checkpoints_topic_replication_factor: int = setting_field(
        "checkpoints.topic.replication.factor", _replicas(3, "Replicas of the topic of checkpoints.")
    )
    heartbeats_topic_replication_factor: int = setting_field(
        "heartbeats.topic.replication.factor", _replicas(3, "Replicas of the topic of heartbeats.")
    )
    replication_policy_class: str = setting_field(
        "replication.policy.class",
        text(
            f"{_JAVA_PACKAGE}{DEFAULT_POLICY}",
            "How topics are named at the target: `DefaultReplicationPolicy` (SOURCE.topic), "
            "`IdentityReplicationPolicy`.",
            into=policy_name,
        ),
    )
    replication_policy_separator: str = setting_field(
        "replication.policy.separator",
        text(
            ".",
            "What stands between the source's alias and the topic's name.",
            Matching(r"[A-Za-z0-9._-]{1,20}", "letters, digits, '.', '_' and '-'"),
        ),
    )
    replication_policy_internal_separator_enabled: bool = setting_field(
        "replication.policy.internal.topic.separator.enabled",
        boolean(True, "Whether names of internal topics have that separator too."),
    )
    offset_reset: OffsetReset = setting_field(
        "consumer.auto.offset.reset",
        member(
            OffsetReset.EARLIEST,
            "Where a partition begins that the mirror has no position of: `earliest` or `latest`.",
        ),
    )
    mirror_maker_offsets_topic: str = setting_field(
        "mirror.maker.offsets.topic",
        text(
            "",
            "The topic at the target where MirrorMaker 2 left its positions, `mm2-offsets.SOURCE.internal`. A "
            "partition that the mirror has no position of begins where MirrorMaker stopped.",
            Matching(r"[A-Za-z0-9._-]{0,249}", "the name of a topic"),
        ),
    )
    delivery: DeliveryGuarantee = setting_field(
        "exactly.once.source.support",
        member(
            DeliveryGuarantee.ENABLED,
            "`enabled`: exactly once, by transactions. `disabled`: at least once. MirrorMaker's default is disabled.",
        ),
    )
    tasks_max: int = setting_field(
        "tasks.max",
        integer(1, "Has no effect: workers share partitions, and each has one transaction at a time.", 1),
    )
    transaction_bytes_max: int = setting_field(
        "transaction.bytes.max", integer(4194304, "Bytes at which a transaction is ended.", 1, 2**30)
    )
    transaction_ms_max: int = setting_field(
        "transaction.ms.max", integer(100, "The age at which a transaction is ended.", 1, 60_000)
    )
    transaction_timeout_ms: int = setting_field(
        "transaction.timeout.ms",
        integer(
            30000,
            "The age at which the target aborts the transaction of a worker that hangs.",
            1_000,
            900_000,
        ),
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
    name: str = setting_field(
        "name",
        text(
            "mirror",
            "The mirror's name, a part of its groups' names. Workers of one mirror share it.",
            Matching(NAME_PATTERN, "up to 100 letters, digits, '.', '_' and '-'"),
        ),
    )
    worker_id: str = setting_field(
        "worker.id",
        text(
            "",
            "The worker's name in logs; by default the host's name and the process's number.",
            Matching("(?s).{0,200}", "up to 200 characters"),
        ),
    )
    bytes_per_second_max: int = setting_field(
        "bytes.per.second.max", long(0, "Bytes that this process reads in a second; 0 is no limit.", 0)
    )

    def group_id(self, flow: FlowSettings) -> str:
        """The group at the target that holds a flow's positions and shares its partitions."""
        return f"{GROUP_PREFIX}{self.name}.{flow.source.alias}"
