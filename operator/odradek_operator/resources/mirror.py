"""The kind Mirror: topics of other clusters that are copied into one, and the workers that copy them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.cluster import Metrics, PullPolicy
from odradek_operator.resources.connections import BOOTSTRAP, CONNECTION_RULES
from odradek_operator.resources.definition import (
    AGE_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    Column,
    Definition,
    ScaleSubresource,
)
from odradek_operator.resources.mirror_config import OWNED_KEYS, WORKER_KEY, MirrorConfiguration
from odradek_operator.resources.mirror_status import ALIAS_LENGTH_MAX, SOURCES_MAX, MirrorStatus
from odradek_operator.resources.pods import IMAGE, RUN_AS_DOC, ObjectMetadata, Pod, Resources, RunAs
from odradek_operator.resources.schema import INT64_MAX, Choice, Flag, Text, Whole
from odradek_operator.resources.security import SECRET_NAME
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule
from odradek_operator.resources.topic import CLUSTER_NAME, REPLICAS_MAX

PATTERNS_MAX: Final = 256
WORKERS_MAX: Final = 100
DAY_SECONDS: Final = 86_400
# Names of Services and pods are made from it, as from a Cluster's.
NAME_LENGTH_MAX: Final = 40

_ALIAS: Final = Text(
    min_length=1,
    max_length=ALIAS_LENGTH_MAX,
    pattern=r"^[a-zA-Z0-9_-]+$",
    what="an alias: letters, digits, _ and -",
)
_PATTERNS: Final = Listing(
    Text(
        min_length=1,
        max_length=1024,
        pattern=r"^[^,\s]+$",
        what="a name or a regular expression without commas and blanks; give each an entry of its own",
    ),
    max_items=PATTERNS_MAX,
)
_SECONDS: Final = Whole(minimum=1, maximum=DAY_SECONDS)
_TARGET_ALIAS: Final = (
    "(has(self.target.alias) ? self.target.alias : has(self.target.cluster) ? self.target.cluster : '')"
)
_REFUSED_KEYS: Final = ", ".join(repr(key) for key in sorted([*OWNED_KEYS, WORKER_KEY]))


class NamingPolicy(StrEnum):
    """The rule for the name of a mirrored topic at the target."""

    DEFAULT = "Default"
    IDENTITY = "Identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConnection:
    """A cluster and how workers connect to it."""

    RULES: ClassVar[tuple[Rule, ...]] = CONNECTION_RULES

    cluster: Annotated[str | None, CLUSTER_NAME, Doc("A Cluster in the same namespace.")] = None
    user: Annotated[
        str | None,
        SECRET_NAME,
        Doc("The User of that Cluster by which workers log in. It is needed where the Cluster has logins."),
    ] = None
    bootstrap: Annotated[
        str | None,
        BOOTSTRAP,
        Doc("Addresses of any other Kafka or Odradek cluster, as HOST:PORT with commas between them."),
    ] = None
    client_secret: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The Secret in the same namespace with `client.properties`: Kafka's client properties for `bootstrap`. The "
            "operator does not read it; workers mount all of it at /etc/odradek-clusters/ALIAS. Without it: no login."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTarget(MirrorConnection):
    """The cluster that records are written to."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *CONNECTION_RULES,
        Rule(
            "has(self.alias) || has(self.cluster)", "give the target an alias, a word of your choice for it"
        ),
    )

    alias: Annotated[
        str | None,
        _ALIAS,
        Doc("The target's name in this mirror. Without it: the name of its Cluster."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSource(MirrorConnection):
    """The cluster that records come from, and the choice of its topics and groups."""

    alias: Annotated[
        str,
        _ALIAS,
        Doc("The source's name in this mirror. Topics are called by it at the target: `ALIAS.TOPIC`."),
    ]
    topics: Annotated[
        tuple[str, ...],
        _PATTERNS,
        Doc("Topics to mirror: names and regular expressions that match a whole name."),
    ] = (".*",)
    topics_exclude: Annotated[
        tuple[str, ...],
        _PATTERNS,
        Doc(
            "Topics to leave out, likewise. Internal topics (`__.*`, `.*[-.]internal`, `.*\\.replica`) never go."
        ),
    ] = ()
    groups: Annotated[
        tuple[str, ...],
        _PATTERNS,
        Doc("Consumer groups whose offsets are translated, likewise."),
    ] = (".*",)
    groups_exclude: Annotated[
        tuple[str, ...],
        _PATTERNS,
        Doc(
            "Consumer groups to leave out. Groups of console consumers and of Kafka Connect are left out anyway."
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The names of mirrored topics at the target."""

    policy: Annotated[
        NamingPolicy,
        Choice(NamingPolicy),
        Doc("`Default`: the source's alias goes before the topic's name. `Identity`: the topic's own name."),
    ] = NamingPolicy.DEFAULT
    separator: Annotated[
        str,
        Text(
            min_length=1,
            max_length=20,
            pattern=r"^[a-zA-Z0-9._-]+$",
            what="a separator: letters, digits, ., _ and -",
        ),
        Doc("What stands between the alias and the topic's name."),
    ] = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalSeconds:
    """The intervals of the workers' periodic tasks, in seconds."""

    topics: Annotated[int, _SECONDS, Doc("Look for new topics and partitions at the sources.")] = 600
    groups: Annotated[int, _SECONDS, Doc("Look for new consumer groups at the sources.")] = 600
    topic_configs: Annotated[int, _SECONDS, Doc("Take changes of topics' settings over.")] = 600
    checkpoints: Annotated[int, _SECONDS, Doc("Write the translated offsets of groups.")] = 60
    group_offsets: Annotated[int, _SECONDS, Doc("Commit them for groups at the target.")] = 60
    heartbeats: Annotated[int, _SECONDS, Doc("Write a heartbeat.")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSpec:
    """The mirror that is wanted."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.sources.all(one, self.sources.exists_one(other, other.alias == one.alias))",
            "two sources have the same alias: give each its own",
        ),
        Rule(
            f"self.sources.all(one, one.alias != {_TARGET_ALIAS})",
            "a source has the alias of the target: give one of them another",
        ),
        Rule(
            "self.sources.all(one, !one.alias.contains(self.naming.separator))",
            "an alias holds naming.separator, so names of topics would be ambiguous: change one of them",
        ),
        Rule(
            "self.sources.all(one, !has(one.cluster) || !has(self.target.cluster) || "
            "one.cluster != self.target.cluster)",
            "a source is the target itself, and its records would be mirrored again and again: name another cluster",
        ),
        Rule(
            "self.sources.all(one, !has(one.bootstrap) || !has(self.target.bootstrap) || "
            "one.bootstrap != self.target.bootstrap)",
            "a source has the addresses of the target, and its records would be mirrored again and again: name another "
            "cluster",
        ),
        Rule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '')",
            "name cannot be changed, since workers would begin again and double records; make another Mirror",
        ),
        Rule(
            "self.naming == oldSelf.naming",
            "naming cannot be changed, since all topics would be mirrored again under other names; make another Mirror",
        ),
        Rule(
            f"!has(self.config) || self.config.all(key, !(key in [{_REFUSED_KEYS}]))",
            "config holds a key that the Mirror has a field for: set the field instead",
        ),
    )

    target: Annotated[MirrorTarget, Nested(MirrorTarget), Doc("The cluster that records are written to.")]
    sources: Annotated[
        tuple[MirrorSource, ...],
        Listing(Nested(MirrorSource), min_items=1, max_items=SOURCES_MAX),
        Doc("The clusters that records are read from."),
    ]
    name: Annotated[
        str | None,
        Text(
            min_length=1,
            max_length=100,
            pattern=r"^[a-zA-Z0-9._-]+$",
            what="a mirror's name: letters, digits, ., _ and -",
        ),
        Doc(
            "The name under which the target keeps how far the mirror is. Without it: NAMESPACE.NAME of this resource. "
            "A mirror that ran elsewhere continues under its own name. It cannot be changed."
        ),
    ] = None
    naming: Annotated[
        Naming, Nested(Naming), Doc("How mirrored topics are called. It cannot be changed.")
    ] = Naming()
    exactly_once: Annotated[
        bool,
        Flag(),
        Doc(
            "Write records and how far the mirror is in one transaction, so that none is lost or doubled. Without it a "
            "worker that fails may double the last records."
        ),
    ] = True
    sync_group_offsets: Annotated[
        bool,
        Flag(),
        Doc("Commit translated offsets for groups at the target, so that consumers can move there."),
    ] = False
    sync_topic_configs: Annotated[
        bool, Flag(), Doc("Give mirrored topics the settings that they have at the source.")
    ] = True
    replication_factor: Annotated[
        int | None,
        Whole(minimum=1, maximum=REPLICAS_MAX),
        Doc(
            "Replicas of the topics that the mirror makes, its own among them. Without it: the default of the cluster "
            "that has them."
        ),
    ] = None
    interval_seconds: Annotated[
        IntervalSeconds, Nested(IntervalSeconds), Doc("How often workers do what they do from time to time.")
    ] = IntervalSeconds()
    bytes_per_second_max: Annotated[
        int | None,
        Whole(minimum=1, maximum=INT64_MAX),
        Doc("How many bytes all workers together copy in a second at most. Each has an equal share of it."),
    ] = None
    replicas: Annotated[
        int,
        Whole(minimum=1, maximum=WORKERS_MAX),
        Doc("How many workers share the partitions. One that is lost is replaced by the others at once."),
    ] = 1
    paused: Annotated[
        bool, Flag(), Doc("Stop all workers. They continue where they stopped once it is false again.")
    ] = False
    image: Annotated[
        str | None, IMAGE, Doc("The image of the workers. Without it: what the operator was started with.")
    ] = None
    image_pull_policy: Annotated[PullPolicy, Choice(PullPolicy), Doc("When images are fetched.")] = (
        PullPolicy.IF_NOT_PRESENT
    )
    resources: Annotated[Resources, Nested(Resources), Doc("Each worker's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "512Mi"}
        )
    )
    config: Annotated[
        Mapping[str, str],
        MirrorConfiguration(),
        Doc(
            "More settings by MirrorMaker's keys, as texts; `SOURCE->TARGET.` before a key is for one source. Keys "
            "that the Mirror has fields for, and what is secret, are refused."
        ),
    ] = field(default_factory=dict)
    metrics: Annotated[Metrics, Nested(Metrics), Doc("How metrics are found.")] = field(
        default_factory=Metrics
    )
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the workers' pods.")] = field(default_factory=Pod)
    run_as: Annotated[RunAs, Nested(RunAs), RUN_AS_DOC] = field(default_factory=RunAs)
    object_metadata: Annotated[
        ObjectMetadata,
        Nested(ObjectMetadata),
        Doc("Labels and annotations for every object that is made. A change replaces pods in turn."),
    ] = field(default_factory=ObjectMetadata)

    @property
    def target_alias(self) -> str:
        return self.target.alias or self.target.cluster or ""


MIRROR_DEFINITION: Final = Definition(
    kind="Mirror",
    plural="mirrors",
    short_name="omi",
    doc="A mirror of topics of other clusters.",
    spec=MirrorSpec,
    status=MirrorStatus,
    scale=ScaleSubresource(wanted=".spec.replicas", actual=".status.replicas", selector=".status.selector"),
    rules=(
        Rule(
            f"self.metadata.name.matches('^[a-z]([a-z0-9-]{{0,{NAME_LENGTH_MAX - 2}}}[a-z0-9])?$')",
            f"a Mirror's name begins with a letter and has at most {NAME_LENGTH_MAX} characters: names of Services are "
            "made from it",
        ),
    ),
    columns=(
        Column(name="Target", path=".status.target"),
        Column(name="Sources", path=".status.from"),
        Column(name="Workers", path=".status.ready", type="integer", doc="How many workers serve."),
        Column(name="Topics", path=".status.topics", type="integer"),
        Column(name="Lag", path=".status.lag", type="integer", doc="Records that are not mirrored yet."),
        READY_COLUMN,
        REASON_COLUMN,
        AGE_COLUMN,
    ),
)
