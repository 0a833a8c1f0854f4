"""The kind Cluster: brokers, controllers and their ZooKeeper, as one resource.

Its parts stand beside it: `brokers` (with the controllers), `zookeeper`, `listeners`, `console`, `pods` and
`cluster_status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.adoption import Adoption
from odradek_operator.resources.balance import Balance
from odradek_operator.resources.brokers import Brokers, Controllers
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.console import CONSOLE_NAMES_RULE, CONSOLE_RULES, ClusterConsole
from odradek_operator.resources.definition import AGE_COLUMN, READY_COLUMN, REASON_COLUMN, Column, Definition
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.listeners import LISTENERS_MAX, ClusterListener
from odradek_operator.resources.pods import IMAGE, RUN_AS_DOC, ObjectMetadata, RunAs, class_is_fixed
from odradek_operator.resources.schema import Choice, Flag, OpenList, Text
from odradek_operator.resources.security import Authorization, Certificates, InternalListener
from odradek_operator.resources.spreading import Spread
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule
from odradek_operator.resources.workloads import SCALABLE_WORKLOADS, ScalableWorkload
from odradek_operator.resources.zookeeper import Zookeeper, path_is_fixed


class PullPolicy(StrEnum):
    """The policy for pulling images."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAccess:
    """The network access to the pods."""

    enabled: Annotated[
        bool,
        Flag(),
        Doc("Make NetworkPolicies: only brokers and controllers reach controllers and ZooKeeper."),
    ] = True
    clients: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' NetworkPolicyPeer"),
        Doc("Which peers may be clients. Without it: all that can reach the pods."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The discovery of metrics by Prometheus."""

    annotations: Annotated[
        bool,
        Flag(),
        Doc(
            "Put the annotations prometheus.io/scrape and its like on pods, for a Prometheus without its operator."
        ),
    ] = False


_ARE_SINGLE: Final = "self.brokers.processes == 1 && self.brokers.pools.all(pool, pool.processes == 1)"
_SINGLE: Final = f"(!has(self.brokers) || ({_ARE_SINGLE}))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster as it is wanted."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.listeners.all(one, self.listeners.exists_one(other, other.port == one.port))",
            "two listeners have the same port: give each its own",
        ),
        Rule(
            "has(self.internalListener) == has(oldSelf.internalListener)",
            "internalListener cannot be added or taken away: the brokers' own connections change with it. Make another "
            "Cluster",
        ),
        Rule(
            "!has(self.authorization) || (has(self.internalListener) && has(self.internalListener.authentication) && "
            "self.listeners.all(one, has(one.authentication)))",
            "authorization needs names: give internalListener and every listener an authentication",
        ),
        Rule(
            f"{_SINGLE} || self.listeners.all(one, one.type in ['Internal', 'LoadBalancer'])",
            "with several processes each broker of a pod has a port of its own: use the types Internal and "
            "LoadBalancer, which lead there",
        ),
        Rule(
            f"{_SINGLE} || self.listeners.all(one, !(one.port % 100 in [44, 91, 92]) && "
            "self.listeners.exists_one(other, other.port % 100 == one.port % 100))",
            "with several processes broker n has ports 100 n higher: the last two digits of listeners' ports must "
            "differ, none 44, 91 or 92",
        ),
        *CONSOLE_RULES,
    )

    zookeeper: Annotated[Zookeeper, Nested(Zookeeper), Doc("Where the cluster keeps its metadata.")]
    image: Annotated[
        str | None,
        IMAGE,
        Doc("The image of brokers and controllers. Without it: what the operator was started with."),
    ] = None
    image_pull_policy: Annotated[PullPolicy, Choice(PullPolicy), Doc("When images are fetched.")] = (
        PullPolicy.IF_NOT_PRESENT
    )
    version: Annotated[
        str | None,
        Text(max_length=64),
        Doc(
            "The image's tag, where `image` has neither tag nor digest; else which version that image is, where its "
            "tag is none. Without it: the tag of the operator's default image."
        ),
    ] = None
    brokers: Annotated[Brokers, Nested(Brokers), Doc("The brokers.")] = field(default_factory=Brokers)
    balance: Annotated[Balance, Nested(Balance), Doc("When the load of brokers is levelled.")] = field(
        default_factory=Balance
    )
    controllers: Annotated[Controllers, Nested(Controllers), Doc("The controllers.")] = field(
        default_factory=Controllers
    )
    listeners: Annotated[
        tuple[ClusterListener, ...],
        Listing(Nested(ClusterListener), max_items=LISTENERS_MAX, keys=("name",)),
        Doc("Ways in from outside, besides the internal listener at 9092."),
    ] = ()
    internal_listener: Annotated[
        InternalListener | None,
        Nested(InternalListener),
        Doc(
            "Secures the listener at 9092, and the brokers' connections among themselves (at 9091, by certificates). "
            "Without it both are in clear, and for all. It cannot be added to a Cluster that is there, nor taken away."
        ),
    ] = None
    authorization: Annotated[
        Authorization | None,
        Nested(Authorization),
        Doc("What decides about rights. Without it every client may do everything."),
    ] = None
    certificates: Annotated[
        Certificates, Nested(Certificates), Doc("The certificates that the operator makes.")
    ] = field(default_factory=Certificates)
    network: Annotated[NetworkAccess, Nested(NetworkAccess), Doc("What may talk to the pods.")] = field(
        default_factory=NetworkAccess
    )
    spread: Annotated[Spread, Nested(Spread), Doc("How strictly pods of one kind are kept apart.")] = field(
        default_factory=Spread
    )
    run_as: Annotated[RunAs, Nested(RunAs), RUN_AS_DOC] = field(default_factory=RunAs)
    metrics: Annotated[Metrics, Nested(Metrics), Doc("How metrics are found.")] = field(
        default_factory=Metrics
    )
    console: Annotated[
        ClusterConsole | None,
        Nested(ClusterConsole),
        Doc("A console in a browser, `{}` for one with its defaults. Without it: none."),
    ] = None
    scalable_workloads: Annotated[
        tuple[ScalableWorkload, ...],
        SCALABLE_WORKLOADS,
        Doc(
            "Which workloads of the namespace ConsumerGroups of this Cluster may scale, by `workload` and `replicas`. "
            "Without it: none."
        ),
    ] = ()
    object_metadata: Annotated[
        ObjectMetadata,
        Nested(ObjectMetadata),
        Doc(
            "Labels and annotations for every object that is made: Services, sets, pods, volume claims and all others. "
            "A change replaces pods in turn; volume claims that are there keep theirs."
        ),
    ] = field(default_factory=ObjectMetadata)
    adoption: Annotated[
        Adoption,
        Nested(Adoption),
        Doc("What becomes of what an earlier Cluster of the name has left on volumes and in ZooKeeper."),
    ] = field(default_factory=Adoption)
    deletion_policy: Annotated[
        DeletionPolicy,
        Choice(DeletionPolicy),
        Doc(
            "What becomes of volumes when the Cluster is deleted or has fewer brokers. A Cluster of the same name "
            "adopts retained volumes, with what is in them (`adoption`)."
        ),
    ] = DeletionPolicy.RETAIN


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
        Column(name="Wanted", path=".status.brokers.wanted", type="integer", doc="How many are wanted."),
        Column(name="Version", path=".status.version", doc="What all brokers run."),
        Column(name="Bootstrap", path=".status.bootstrap", doc="Where clients begin."),
        REASON_COLUMN,
        AGE_COLUMN,
    ),
    rules=(
        class_is_fixed("broker", "brokers"),
        class_is_fixed("zookeeper", "zookeeper", "servers"),
        path_is_fixed(),
        CONSOLE_NAMES_RULE,
        Rule(
            "self.metadata.name.matches('^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$')",
            "a Cluster's name begins with a letter and has at most 40 characters: names of Services are made from it",
        ),
        Rule(
            "!has(self.spec.brokers) || !has(self.spec.brokers.pools) || "
            "self.spec.brokers.pools.all(one, size(self.metadata.name) + size(one.name) <= 44)",
            "the names of the Cluster and of a pool have more than 44 characters together. Labels of pods, which may "
            "have 63, are made from them: give the pool a shorter name",
        ),
        Rule(
            "!has(self.spec.listeners) || "
            "self.spec.listeners.all(one, size(self.metadata.name) + size(one.name) <= 52)",
            "the names of the Cluster and of a listener have more than 52 characters together: Services are called "
            "NAME-LISTENER-bootstrap, which may have 63. Give the listener a shorter name",
        ),
    ),
)
