"""The kind Cluster: brokers, controllers and their ZooKeeper, as one resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from odradek.foundation.broker_settings.protection import PROMISES, promise_of
from odradek.foundation.setting_types import Scope
from odradek.foundation.settings import USED, all_settings
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
from odradek_operator.resources.listeners import LISTENERS_MAX, Listener
from odradek_operator.resources.pods import ObjectMetadata, Pod, Resources, Storage, class_is_fixed
from odradek_operator.resources.schema import Choice, Flag, OpenList, Quantity, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule

BROKERS_MAX: Final = 128
# The least that outlives a server.
ENSEMBLE_SIZE: Final = 3
_IMAGE = Text(min_length=1, max_length=512, pattern=r"^[^\s]+$", what="an image's name")

# Where brokers listen, keep their logs and register follows from the resource itself.
_OWN_KEYS: Final = (
    "node.id", "broker.id", "log.dir", "log.dirs", "listeners", "advertised.listeners", "inter.broker.listener.name",
    "listener.security.protocol.map", "security.inter.broker.protocol", "controlled.shutdown.enable",
    "cordoned.log.dirs",
)  # fmt: skip
_REFUSED: Final = dict.fromkeys(_OWN_KEYS, "the operator sets it from spec.brokers and spec.listeners") | {
    "broker.rack": "set spec.brokers.rackLabel, and each broker takes its node's zone",
    "zookeeper.connect": "set spec.zookeeper",
}
BROKER_SETTINGS: Final = tuple(
    setting
    for key, setting in USED.items()
    if key not in _REFUSED
    and not key.startswith("zookeeper.")
    and not setting.internal
    # For one broker alone, and a Cluster's are for all of them.
    and setting.scope is not Scope.PER_BROKER
)
# What is known by name of those that promise protection; brokers would not start with them.
_PROMISING: Final = sorted(
    key
    for key in {*all_settings(), *(row.key for row in PROMISES if not row.is_family)}
    if promise_of(key) is not None and key not in _REFUSED and not key.startswith("zookeeper.")
)
CONFIGURATION: Final = Configuration(BROKER_SETTINGS, refused=_REFUSED, promising=_PROMISING)


class PullPolicy(StrEnum):
    """When images are fetched."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def _at_most(key: str, replicas: str, what: str) -> Rule:
    escaped = key.replace(".", "__dot__")
    return Rule(
        f"!has(self.config.{escaped}) || int(self.config.{escaped}) <= {replicas}",
        f"{key} must not be above {what}: such topics could never be made",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The brokers of a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || int(self.config.min__dot__insync__dot__replicas) <= "
            "self.replicas",
            "min.insync.replicas must not be above the number of brokers: nobody could write with acks=all",
        ),
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || "
            "has(self.config.default__dot__replication__dot__factor) || "
            "int(self.config.min__dot__insync__dot__replicas) <= 3",
            "min.insync.replicas must not be above default.replication.factor, which is 3 unless it is given: set both",
        ),
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || "
            "!has(self.config.default__dot__replication__dot__factor) || "
            "int(self.config.min__dot__insync__dot__replicas)"
            " <= int(self.config.default__dot__replication__dot__factor)",
            "min.insync.replicas must not be above default.replication.factor: nobody could write with acks=all",
        ),
        _at_most("default.replication.factor", "self.replicas", "the number of brokers"),
        _at_most("offsets.topic.replication.factor", "self.replicas", "the number of brokers"),
        _at_most("transaction.state.log.replication.factor", "self.replicas", "the number of brokers"),
    )

    replicas: Annotated[
        int,
        Whole(minimum=1, maximum=BROKERS_MAX),
        Doc(
            "How many. More: partitions move to the new ones. Fewer: those with the highest numbers are emptied first."
        ),
    ] = 3
    config: Annotated[
        Mapping[str, str],
        CONFIGURATION,
        Doc(
            "Kafka's broker settings by key. What brokers take while they run is set without a restart; anything else "
            "restarts them one by one. Without them, default.replication.factor, offsets.topic.replication.factor and "
            "transaction.state.log.replication.factor are 3, or the number of brokers where that is less, and "
            "min.insync.replicas is 2, or 1 with fewer than three brokers."
        ),
    ] = field(default_factory=dict)
    storage: Annotated[Storage, Nested(Storage), Doc("Each broker's volume.")] = field(
        default_factory=Storage
    )
    resources: Annotated[Resources, Nested(Resources), Doc("Each broker's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "2Gi"}
        )
    )
    move_rate: Annotated[
        str | None,
        Quantity(),
        Doc(
            "How many bytes a second each broker may feed or fetch for partitions that move, as 50Mi. Without it: as "
            "fast as they can."
        ),
    ] = None
    rack_label: Annotated[
        str | None,
        Text(max_length=317, min_length=1),
        Doc(
            "The label of nodes that says which zone they are in, mostly topology.kubernetes.io/zone. Replicas of a "
            "partition are put into different zones, and consumers may read from the nearest. Without it: no zones."
        ),
    ] = None
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the brokers' pods.")] = field(default_factory=Pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """The controllers of a cluster: one is active, the others stand by."""

    replicas: Annotated[int, Whole(minimum=1, maximum=9), Doc("How many, the active one included.")] = 2
    resources: Annotated[Resources, Nested(Resources), Doc("Each controller's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "512Mi"}
        )
    )
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the controllers' pods.")] = field(default_factory=Pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperServers:
    """ZooKeeper servers that the operator runs."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas == oldSelf.replicas",
            "the number of ZooKeeper servers cannot be changed: an ensemble of another size is another ensemble. "
            "Make another Cluster",
        ),
        Rule(
            "!has(self.replicas) || self.replicas % 2 == 1",
            "an even number of ZooKeeper servers survives no more than one less: use 1, 3, 5 or 7",
        ),
    )

    replicas: Annotated[
        int | None,
        Whole(minimum=1, maximum=7),
        Doc(
            "How many: 1, 3, 5 or 7. Without it: 3, or 1 where the Cluster is made with one broker. It cannot be "
            "changed."
        ),
    ] = None
    image: Annotated[
        str | None,
        _IMAGE,
        Doc(
            "An image that runs `zkServer.sh start-foreground` with /conf/zoo.cfg and data in /data, as the official "
            "one. Without it: what the operator was started with."
        ),
    ] = None
    storage: Annotated[Storage, Nested(Storage, size="2Gi"), Doc("Each server's volume.")] = field(
        default_factory=lambda: Storage(size="2Gi")
    )
    resources: Annotated[
        Resources,
        Nested(Resources),
        Doc(
            "Each server's share of its node. Without `limits` its memory is limited to twice its heap and 256Mi; with "
            "`limits: {}` it is not."
        ),
    ] = field(default_factory=lambda: Resources(requests={"cpu": "50m", "memory": "384Mi"}))
    heap_megabytes: Annotated[
        int, Whole(minimum=64, maximum=65_536), Doc("The heap of each server's JVM.")
    ] = 256
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the servers' pods.")] = field(default_factory=Pod)

    @property
    def size(self) -> int:
        """How many, where nothing that is there says otherwise."""
        return self.replicas or ENSEMBLE_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Zookeeper:
    """Where the cluster keeps its shape: ZooKeeper of our own, or one that is there."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.connect) != has(self.servers)",
            "give either spec.zookeeper.connect (an ensemble of yours) or spec.zookeeper.servers (one run here)",
        ),
        Rule(
            "has(self.connect) == has(oldSelf.connect) && (!has(self.connect) || "
            "self.connect.contains('/') == oldSelf.connect.contains('/'))",
            "a cluster cannot move to another ZooKeeper: its topics are kept there",
        ),
        Rule(
            "!has(self.connect) || !has(oldSelf.connect) || !self.connect.contains('/') || "
            "self.connect.substring(self.connect.indexOf('/')) == "
            "oldSelf.connect.substring(oldSelf.connect.indexOf('/'))",
            "the path in spec.zookeeper.connect cannot be changed: the cluster's topics are kept there",
        ),
    )

    connect: Annotated[
        str | None,
        Text(
            pattern=r"^[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5}(,[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5})*(/[A-Za-z0-9._/-]*)?$",
            max_length=2048,
            what="a list of servers such as zk-0:2181,zk-1:2181 with an optional path /my/cluster",
        ),
        Doc(
            "Servers of an ensemble that is there, as `zk-0.zk:2181,zk-1.zk:2181`. A path may follow; without it, the "
            "cluster is kept below /NAMESPACE/NAME."
        ),
    ] = None
    servers: Annotated[
        ZookeeperServers | None, Nested(ZookeeperServers), Doc("An ensemble that the operator runs.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAccess:
    """Who may talk to the pods."""

    enabled: Annotated[
        bool,
        Flag(),
        Doc("Make NetworkPolicies: only brokers and controllers reach controllers and ZooKeeper."),
    ] = True
    clients: Annotated[
        tuple[Mapping[str, Any], ...] | None,
        OpenList("list of Kubernetes' NetworkPolicyPeer"),
        Doc("Who may be a client. Without it: everybody who can reach the pods."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """How measures are found."""

    annotations: Annotated[
        bool,
        Flag(),
        Doc(
            "Put the annotations prometheus.io/scrape and its like on pods, for a Prometheus without its operator."
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster as it is wanted."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.listeners.all(one, self.listeners.exists_one(other, other.port == one.port))",
            "two listeners have the same port: give each its own",
        ),
    )

    zookeeper: Annotated[Zookeeper, Nested(Zookeeper), Doc("Where the cluster keeps its shape.")]
    image: Annotated[
        str | None,
        _IMAGE,
        Doc("The image of brokers and controllers. Without it: what the operator was started with."),
    ] = None
    image_pull_policy: Annotated[PullPolicy, Choice(PullPolicy), Doc("When images are fetched.")] = (
        PullPolicy.IF_NOT_PRESENT
    )
    version: Annotated[
        str | None,
        Text(max_length=64),
        Doc(
            "The image's tag, where `image` has neither tag nor digest. Without it: the tag of the operator's default "
            "image."
        ),
    ] = None
    brokers: Annotated[Brokers, Nested(Brokers), Doc("The brokers.")] = field(default_factory=Brokers)
    controllers: Annotated[Controllers, Nested(Controllers), Doc("The controllers.")] = field(
        default_factory=Controllers
    )
    listeners: Annotated[
        tuple[Listener, ...],
        Listing(Nested(Listener), max_items=LISTENERS_MAX, keys=("name",)),
        Doc("Ways in from outside, besides the internal listener at 9092."),
    ] = ()
    network: Annotated[NetworkAccess, Nested(NetworkAccess), Doc("Who may talk to the pods.")] = field(
        default_factory=NetworkAccess
    )
    metrics: Annotated[Metrics, Nested(Metrics), Doc("How measures are found.")] = field(
        default_factory=Metrics
    )
    object_metadata: Annotated[
        ObjectMetadata,
        Nested(ObjectMetadata),
        Doc(
            "Labels and annotations for every object that is made: Services, sets, pods, volume claims and all others. "
            "A change replaces pods in turn; volume claims that are there keep theirs."
        ),
    ] = field(default_factory=ObjectMetadata)
    deletion_policy: Annotated[
        DeletionPolicy,
        Choice(DeletionPolicy),
        Doc(
            "What becomes of volumes when the Cluster is deleted or has fewer brokers. Retained volumes are taken up "
            "by a Cluster of the same name, with all that is in them."
        ),
    ] = DeletionPolicy.RETAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """How many pods there are of those wanted."""

    wanted: Annotated[int, Whole(), Doc("How many are wanted.")] = 0
    ready: Annotated[int, Whole(), Doc("How many serve.")] = 0
    current: Annotated[int, Whole(), Doc("How many are as the resource wants them.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """A listener's addresses."""

    name: Annotated[str, Text(), Doc("The listener.")]
    type: Annotated[str, Text(), Doc("Who can reach it.")]
    bootstrap: Annotated[str | None, Text(), Doc("Where clients begin.")] = None
    brokers: Annotated[
        tuple[str, ...], Listing(Text(), max_items=BROKERS_MAX), Doc("Each broker's address, by number.")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Partitions on their way between brokers."""

    reason: Annotated[str, Text(), Doc("ScaleUp or ScaleDown.")]
    total: Annotated[int, Whole(), Doc("How many partitions had to move.")] = 0
    left: Annotated[int, Whole(), Doc("How many still have to.")] = 0
    brokers: Annotated[
        tuple[int, ...],
        Listing(Whole(), max_items=BROKERS_MAX),
        Doc("The brokers that are filled or emptied."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster as it is."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    brokers: Annotated[Pods | None, Nested(Pods), Doc("The brokers.")] = None
    controllers: Annotated[Pods | None, Nested(Pods), Doc("The controllers.")] = None
    zookeeper: Annotated[
        Pods | None, Nested(Pods), Doc("The ZooKeeper servers, where they are run here.")
    ] = None
    bootstrap: Annotated[str | None, Text(), Doc("Where clients inside of Kubernetes begin.")] = None
    listeners: Annotated[
        tuple[ListenerStatus, ...], Listing(Nested(ListenerStatus), max_items=LISTENERS_MAX), Doc("Ways in.")
    ] = ()
    image: Annotated[str | None, Text(), Doc("The image that all brokers run.")] = None
    version: Annotated[str | None, Text(), Doc("That image's tag.")] = None
    cluster_id: Annotated[str | None, Text(), Doc("The cluster's id.")] = None
    movement: Annotated[
        Movement | None, Nested(Movement), Doc("Partitions that move between brokers, while they do.")
    ] = None
    restart: Annotated[
        str | None, Text(max_length=4096), Doc("The last value of the annotation odradek.io/restart.")
    ] = None
    live_settings: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=256),
        Doc("Settings that were changed while brokers ran, and are kept as brokers' common defaults."),
    ] = ()
    bound_volumes: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=2),
        Doc(
            "Whose volume claims have got volumes, `broker` or `zookeeper`: their storage class is fixed then."
        ),
    ] = ()


CLUSTER: Final = Definition(
    kind="Cluster",
    plural="clusters",
    short_name="ocl",
    doc="A cluster of Odradek brokers.",
    spec=ClusterSpec,
    status=ClusterStatus,
    columns=(
        READY_COLUMN,
        Column(name="Brokers", path=".status.brokers.ready", type="integer", doc="How many brokers serve."),
        Column(name="Wanted", path=".spec.brokers.replicas", type="integer", doc="How many are wanted."),
        Column(name="Version", path=".status.version", doc="What all brokers run."),
        Column(name="Bootstrap", path=".status.bootstrap", doc="Where clients begin."),
        REASON_COLUMN,
        AGE_COLUMN,
    ),
    rules=(
        class_is_fixed("broker", "brokers"),
        class_is_fixed("zookeeper", "zookeeper", "servers"),
        Rule(
            "self.metadata.name.matches('^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$')",
            "a Cluster's name begins with a letter and has at most 40 characters: names of Services are made from it",
        ),
        Rule(
            "!has(self.spec.listeners) || "
            "self.spec.listeners.all(one, size(self.metadata.name) + size(one.name) <= 52)",
            "the names of the Cluster and of a listener have more than 52 characters together: Services are called "
            "NAME-LISTENER-bootstrap, which may have 63. Give the listener a shorter name",
        ),
    ),
)
