"""Names, labels and ports of what a Cluster is made of: the contract with charts, clients and users of kubectl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from odradek_operator.foundation.manifests import Json as Json
from odradek_operator.resources.brokers import BROKERS_MAX, BrokerPool
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.pods import RunAs

INTERNAL_PORT: Final = 9092
REPLICATION_PORT: Final = 9091
CONTROLLER_PORT: Final = 9093
HTTP_PORT: Final = 9644
ZOOKEEPER_PORT: Final = 2181
CONSOLE_PORT: Final = 8088
ZOOKEEPER_PEER_PORTS: Final = (2888, 3888)

# Listeners as brokers have them. Brokers and the operator use REPLICATION, where there is one.
INTERNAL_LISTENER: Final = "INTERNAL"
REPLICATION_LISTENER: Final = "REPLICATION"
CONTROLLER_LISTENER: Final = "CONTROLLER"
# The HTTP port of brokers and controllers, where it has TLS. No listener of a Cluster can have this name.
HTTP_LISTENER: Final = "HTTP"
BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ZOOKEEPER: Final = "zookeeper"
CONSOLE: Final = "console"
CLUSTER_LABEL: Final = "odradek.io/cluster"
MIRROR: Final = "mirror"
# A worker of a Mirror belongs to no Cluster, so it has a label of its own.
MIRROR_LABEL: Final = "odradek.io/mirror"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "odradek-operator"
LISTENER_LABEL: Final = "odradek.io/listener"
# Of the StatefulSets and pods of a pool; those of the brokers from number 0 on have none.
POOL_LABEL: Final = "odradek.io/pool"
# Of the ConfigMaps with what goes with its resource: its value is the kind, as `users`.
DECLARED_LABEL: Final = "odradek.io/declared"
RESTART_ANNOTATION: Final = "odradek.io/restart"
REPLACE_ANNOTATION: Final = "odradek.io/replace"
# Of a Cluster: with each new value its brokers' load is levelled, or a plan of that is shown.
BALANCE_ANNOTATION: Final = "odradek.io/balance"
PLAN_BALANCE_ANNOTATION: Final = "odradek.io/plan-balance"
# Of a Cluster: with each new value its authorities get new keys.
ROTATE_AUTHORITY_ANNOTATION: Final = "odradek.io/rotate-authority"
# Of a Secret of others: the operator may read it, as an authority.
AUTHORITY_LABEL: Final = "odradek.io/authority"
# Likewise, as a User's password.
PASSWORD_LABEL: Final = "odradek.io/password"
ROLL_ANNOTATION: Final = "odradek.io/roll"
# On a broker's pod that has been seen with all brokers in sync. A new pod does not have it.
CAUGHT_UP_LABEL: Final = "odradek.io/caught-up"
VOLUME: Final = "data"
# Of a broker's container, where several brokers run in it.
PROCESSES_VARIABLE: Final = "BROKER_PROCESSES"
_SHOWS_PREFIX: Final = "shows.odradek.io"
NODE_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardness:
    """Whether pods of one kind wait rather than be spread unevenly over nodes, and over zones."""

    nodes: bool = False
    zones: bool = False


class AccessStage(IntEnum):
    """The steps by which a ZooKeeper comes to admit clients. Each has what the ones before it have."""

    OPEN = 0
    """A client that reaches a server may change everything. The NetworkPolicy admits only our own pods."""
    LOGIN = 1
    """Brokers and controllers log in, and what they make belongs to them."""
    CHECKED = 2
    """Servers check access lists."""
    ADMITTED = 3
    """The NetworkPolicy admits clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperAccess:
    """How far ZooKeeper is protected. `login` stands for the passwords, and does not show them."""

    stage: AccessStage = AccessStage.OPEN
    login: str = ""

    @property
    def logs_in(self) -> bool:
        return self.stage >= AccessStage.LOGIN

    @property
    def is_checked(self) -> bool:
        return self.stage >= AccessStage.CHECKED

    @property
    def admits_clients(self) -> bool:
        return self.stage >= AccessStage.ADMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPods:
    """The pods that a pool of brokers shall have now. `wanted` is None for a pool that the Cluster no longer names."""

    name: str
    first_id: int
    pods: int
    wanted: BrokerPool | None = None
    processes: int = 1
    """Of each pod; those that it has now, for a pool that is taken away."""

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + self.pods)

    @property
    def suffix(self) -> str:
        """The end of the StatefulSet's name."""
        return pool_suffix(self.name)


def pool_suffix(pool: str) -> str:
    """The end of the name of a pool's StatefulSet."""
    return f"{BROKER}-{pool}"


def shows_label(cluster: str) -> str:
    """The label of a console's pod by which another Cluster admits it: the console shows that one, too."""
    return f"{_SHOWS_PREFIX}/{cluster}"


def zone_label(spec: ClusterSpec) -> str:
    """The label of nodes that names their zone."""
    return spec.brokers.rack_label or ZONE_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A Cluster, and what else its manifests follow from.

    `brokers` is how many pods there shall be now from number 0 on: more than wanted while some are being emptied.
    `pools` are those beside them. `restart` is the last value of the restart annotation. `addresses` are shell words by
    listener and broker (`host:port`, where ${NODE_IP} stands for the node's address), None where none is known yet.
    `zones` are racks by node. `spread` is how
    strictly each kind of pods is spread, loosely where it is missing. `operator_namespace` is the namespace of the
    operator's own pod. `authority` is the Cluster's authority in PEM, once it is there.
    """

    name: str
    namespace: str
    spec: ClusterSpec
    owner: Json
    image: str
    zookeeper_image: str
    domain: str
    operator_namespace: str
    brokers: int
    restart: str = ""
    authority: str | None = None
    addresses: dict[str, dict[int, str | None]]
    zones: dict[str, str]
    is_held: bool = False
    spread: Mapping[str, Hardness] = field(default_factory=dict)
    pools: tuple[PoolPods, ...] = ()
    zookeeper_access: ZookeeperAccess = field(default_factory=ZookeeperAccess)

    def object_name(self, suffix: str) -> str:
        """NAME-suffix."""
        return f"{self.name}-{suffix}"

    def dns_name(self, service: str, *, pod: str = "") -> str:
        """The full name of a Service, or of a pod behind a headless one."""
        name = f"{service}.{self.namespace}.svc.{self.domain}"
        return f"{pod}.{name}" if pod else name

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The numbers of all brokers that there shall be now, those of pools included."""
        return (*range(self.brokers), *(broker for pool in self.pools for broker in pool.ids))

    def processes_of(self, broker: int) -> int:
        """How many brokers run in the pod of this one."""
        found = (pool.processes for pool in self.pools if 0 <= broker - pool.first_id < BROKERS_MAX)
        return next(found, self.spec.brokers.processes)

    @property
    def processes_max(self) -> int:
        """How many brokers run in a pod at most."""
        return max(self.spec.brokers.processes, *(pool.processes for pool in self.pools), 1)

    def broker_pod(self, broker: int) -> str:
        """The name of a broker's pod."""
        found = (pool.suffix for pool in self.pools if 0 <= broker - pool.first_id < BROKERS_MAX)
        return f"{self.object_name(next(found, BROKER))}-{broker}"

    def broker_host(self, broker: int) -> str:
        """Return the host name of a broker inside of Kubernetes."""
        return self.dns_name(self.object_name("brokers"), pod=self.broker_pod(broker))

    @property
    def bootstrap(self) -> str:
        """The bootstrap address of clients inside of Kubernetes."""
        return f"{self.dns_name(self.object_name('bootstrap'))}:{INTERNAL_PORT}"

    @property
    def own_bootstrap(self) -> str:
        """The bootstrap address of the operator."""
        if self.spec.internal_listener is None:
            return self.bootstrap
        return f"{self.dns_name(self.object_name('bootstrap'))}:{REPLICATION_PORT}"

    @property
    def zookeeper_connect(self) -> str:
        """The ensemble, with the path below which this cluster is kept."""
        given = self.spec.zookeeper.connect
        if given is None:
            return f"{self.dns_name(self.object_name(ZOOKEEPER))}:{ZOOKEEPER_PORT}{self._own_path}"
        return given if "/" in given else given + self._own_path

    @property
    def zookeeper_path(self) -> str:
        """The path below which this cluster is kept."""
        return "/" + self.zookeeper_connect.partition("/")[2]

    @property
    def _own_path(self) -> str:
        return self.spec.zookeeper.path or f"/{self.namespace}/{self.name}"

    def selector(self, component: str) -> dict[str, str]:
        """The labels by which pods are found. They cannot change after a release: a StatefulSet's selector is fixed.

        `app.kubernetes.io/*` alone would select pods of other software; `odradek.io/cluster` is ours.
        """
        return {
            "app.kubernetes.io/name": "odradek",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": component,
            CLUSTER_LABEL: self.name,
        }

    @property
    def pull_policy(self) -> str:
        """The policy for pulling images, by Kubernetes' words."""
        return str(self.spec.image_pull_policy)

    @property
    def run_as(self) -> RunAs:
        """The users and groups of pods."""
        return self.spec.run_as

    def spread_over(self, component: str) -> tuple[tuple[str, bool], ...]:
        """The labels of nodes that pods of a kind are spread by, and whether strictly."""
        hardness = self.spread.get(component, Hardness())
        return (NODE_LABEL, hardness.nodes), (zone_label(self.spec), hardness.zones)

    @property
    def given_labels(self) -> dict[str, str]:
        """The labels and annotations that the Cluster sets on every object."""
        return dict(self.spec.object_metadata.labels or {})

    @property
    def given_annotations(self) -> dict[str, str]:
        """The labels and annotations that the Cluster sets on every object."""
        return dict(self.spec.object_metadata.annotations or {})

    def labels(self, component: str) -> dict[str, str]:
        """The labels that everything carries."""
        return {
            **self.selector(component),
            MANAGED_BY_LABEL: MANAGED_BY,
        }

    def manifest(
        self,
        api_version: str,
        kind: str,
        name: str,
        component: str,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **content: object,
    ) -> Json:
        """An object of this Cluster: it goes when the Cluster goes."""
        metadata: Json = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.given_labels, **self.labels(component), **(labels or {})},
            "ownerReferences": [self.owner],
        }
        if wanted := {**self.given_annotations, **(annotations or {})}:
            metadata["annotations"] = wanted
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
