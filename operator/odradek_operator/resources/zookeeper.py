"""The ensemble in which a Cluster keeps its shape: ZooKeeper that the operator runs, or an existing ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.pods import IMAGE, Pod, Resources, Storage
from odradek_operator.resources.schema import OpenList, Text, Whole
from odradek_operator.resources.structure import Doc, Nested, Rule

# The least that outlives a server.
ENSEMBLE_SIZE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperServers:
    """ZooKeeper servers that the operator runs."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.replicas) || self.replicas % 2 == 1",
            "an even number of ZooKeeper servers survives no more than one less: use 1, 3, 5 or 7",
        ),
    )

    replicas: Annotated[
        int | None,
        Whole(minimum=1, maximum=7),
        Doc(
            "How many: 1, 3, 5 or 7. May change while they run. Without it: as many as there are, and for a new "
            "Cluster 3, or 1 where it is made with one broker."
        ),
    ] = None
    image: Annotated[
        str | None,
        IMAGE,
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
            "Each server's share of its node. Without `limits` its memory is limited to twice its heap and 256Mi. With "
            "`limits: {}` it is not."
        ),
    ] = field(default_factory=lambda: Resources(requests={"cpu": "50m", "memory": "384Mi"}))
    heap_megabytes: Annotated[
        int, Whole(minimum=64, maximum=65_536), Doc("The heap of each server's JVM.")
    ] = 256
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the servers' pods.")] = field(default_factory=Pod)
    clients: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' NetworkPolicyPeer"),
        Doc(
            "Which peers may be clients of ZooKeeper, as Kafka's first consumers are. Servers then check access lists, "
            "and clients write below /consumers alone. With `[]` servers check, and admit no client. Without it: none."
        ),
    ] = None

    @property
    def size(self) -> int:
        """The number, where nothing that is there says otherwise."""
        return self.replicas or ENSEMBLE_SIZE


def path_is_fixed() -> Rule:
    """A rule of the whole Cluster: the path may be corrected until brokers have served, as its status says."""

    def path_of(root: str) -> str:
        path = f"{root}.spec.zookeeper.path"
        return f"(has({path}) ? {path} : '')"

    has_served = "has(self.status) && has(self.status.clusterId)"
    return Rule(
        f"!({has_served}) || {path_of('self')} == {path_of('oldSelf')}",
        "spec.zookeeper.path cannot be changed: the cluster's topics are kept there. Set it back",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Zookeeper:
    """The ensemble in which the cluster keeps its shape: ZooKeeper that the operator runs, or an existing one."""

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
        Rule(
            "!has(self.path) || !has(self.connect) || !self.connect.contains('/')",
            "spec.zookeeper.connect has a path already: leave spec.zookeeper.path out",
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
            "Servers of an existing ensemble, as `zk-0.zk:2181,zk-1.zk:2181`. A path may follow; without it, the "
            "cluster is kept below /NAMESPACE/NAME."
        ),
    ] = None
    path: Annotated[
        str | None,
        Text(
            pattern=r"^(/[A-Za-z0-9._-]+)+$",
            max_length=255,
            what="a path such as /NAMESPACE/NAME",
        ),
        Doc(
            "The path in the ensemble below which the cluster is kept. Without it: /NAMESPACE/NAME of this Cluster. "
            "With volumes restored from another namespace: the path that they had there. It is fixed once brokers "
            "have served."
        ),
    ] = None
    servers: Annotated[
        ZookeeperServers | None, Nested(ZookeeperServers), Doc("An ensemble that the operator runs.")
    ] = None
