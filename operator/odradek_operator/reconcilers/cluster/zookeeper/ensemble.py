"""The ZooKeeper that a Cluster runs: how many servers, which of them vote, and whether their data is the Cluster's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from odradek_operator.desired.names import VOLUME, ZOOKEEPER
from odradek_operator.desired.zookeeper_files import NO_DATA, EnsembleMembership
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.cluster.facts import BrokerPod, Objects, ServerPod
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.zookeeper import ENSEMBLE_SIZE

_OF_OTHER_CLUSTER: Final = re.compile(r"belongs to the cluster (\S+), and the registry to")
_WHAT_TO_DO: Final = (
    "All records are still on the brokers' volumes: keep these. Put ZooKeeper's data back from a backup of its "
    "volumes, as docs/zookeeper-backup.md says"
)


def with_size(spec: ClusterSpec, name: str, before: ClusterStatus, objects: Objects) -> ClusterSpec:
    """The same, with the number of servers' pods that there shall be now.

    A server that votes has a pod: its pod is made before it votes, and goes after. Until the ensemble has begun its
    number stays, because its first servers know each other by it.
    """
    servers = spec.zookeeper.servers
    if servers is None:
        return spec
    if before.ensemble is not None and before.ensemble.voters:
        size = max(servers.replicas or len(before.ensemble.voters), *before.ensemble.voters)
    else:
        there = _size_before(name, before, objects)
        size = there or servers.replicas or (1 if spec.brokers.total == 1 else ENSEMBLE_SIZE)
    return replace(spec, zookeeper=replace(spec.zookeeper, servers=replace(servers, replicas=size)))


def _size_before(name: str, before: ClusterStatus, objects: Objects) -> int | None:
    """The number of servers: by the status, the StatefulSet, or volumes that an earlier Cluster left."""
    if before.zookeeper is not None and before.zookeeper.wanted:
        return before.zookeeper.wanted
    called = f"{name}-{ZOOKEEPER}"
    if stateful_set := objects.get(("StatefulSet", called)):
        return int((stateful_set.get("spec") or {}).get("replicas") or 0) or None
    claims = [
        number
        for kind, claim in objects
        if kind == "PersistentVolumeClaim"
        and (number := claim.removeprefix(f"{VOLUME}-{called}-")).isdecimal()
    ]
    return len(claims) or None


def membership(before: ClusterStatus, size: int) -> EnsembleMembership:
    """The ensemble that servers get at their start. Servers without data may begin one only for a new Cluster."""
    if before.ensemble is not None and before.ensemble.voters:
        return EnsembleMembership(voters=before.ensemble.voters, version=before.ensemble.version)
    all_of_them = tuple(range(1, size + 1))
    return EnsembleMembership(voters=all_of_them, founders=() if before.cluster_id else all_of_them)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """The change that makes the ensemble as large as it is wanted. `waiting` is what holds it up."""

    joining: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()
    waiting: str = ""

    @property
    def under_way(self) -> bool:
        return bool(self.joining or self.leaving)

    def __str__(self) -> str:
        parts = [
            f"{', '.join(str(one) for one in ids)} {verb}"
            for ids, verb in ((self.joining, "join"), (self.leaving, "leave"))
            if ids
        ]
        return f"ZooKeeper servers {' and '.join(parts)}" + (
            f"; waiting: {self.waiting}" if self.waiting else ""
        )


def resize(voters: tuple[int, ...], wanted: int | None, waits_for: str | None) -> Resize:
    """Return the change by which the first `wanted` servers vote (None: no change), once `waits_for` is over.

    Servers that join serve already, without a vote: they have all data. All join in one change, and all leave in one.
    So an ensemble never has two voters, of which each loss would stop it.
    """
    if wanted is None or not voters:
        return Resize()
    target = set(range(1, wanted + 1))
    return Resize(
        joining=tuple(sorted(target - set(voters))),
        leaving=tuple(sorted(set(voters) - target)),
        waiting=waits_for or "",
    )


def claims_of_former_servers(claims: Iterable[Json], size: int, voters: tuple[int, ...]) -> list[Json]:
    """Volume claims of servers that have left. Their data is old, and a server that joins later must not find it."""
    former: list[Json] = []
    for claim in claims:
        number = str(metadata(claim)["name"]).rpartition("-")[2]
        if number.isdecimal() and int(number) >= size and int(number) + 1 not in voters:
            former.append(claim)
    return former


def path_problem(pods: tuple[BrokerPod, ...], known: str | None, path: str) -> str | None:
    """The problem where brokers that have never served as this Cluster have volumes of another one.

    `known` is the id that the Cluster has had, `path` where ZooKeeper keeps it.
    """
    if known is not None:
        return None
    found = next(
        (
            (pod.broker, match[1])
            for pod in pods
            if (match := _OF_OTHER_CLUSTER.search(pod.termination_message)) is not None
        ),
        None,
    )
    if found is None:
        return None
    broker, cluster = found
    return (
        f"the volume of broker {broker} has the data of the cluster {cluster}, and ZooKeeper keeps another one below "
        f"{path}. Volumes that were restored from another namespace need the path that they had there: set "
        "spec.zookeeper.path to /FORMER-NAMESPACE/FORMER-NAME. Without ZooKeeper's data of that cluster the records "
        "cannot be served: docs/zookeeper-backup.md"
    )


def data_problem(
    pods: tuple[BrokerPod, ...],
    known: str | None,
    current: str | None,
    servers: tuple[ServerPod, ...] = (),
    voters: tuple[int, ...] = (),
) -> str | None:
    """The problem where most servers of the ensemble have no data, or the data is another cluster's or gone.

    `known` is the id that the Cluster has had, `current` the one that brokers answer now.
    """
    empty = [pod.name for pod in servers if not pod.ready and NO_DATA in pod.termination_message]
    if voters and len(voters) - len(empty) <= len(voters) // 2:
        return (
            f"ZooKeeper's data is lost: {len(empty)} of {len(voters)} servers have none on their volumes "
            f"({', '.join(empty)}). {_WHAT_TO_DO}"
        )
    if known is None:
        return None
    by = [
        pod.broker
        for pod in pods
        if f"belongs to the cluster {known}, and the registry to" in pod.termination_message
    ]
    if not by and current in (None, known):
        return None
    witness = f"broker {by[0]} has" if by else "this Cluster has had"
    return (
        f"ZooKeeper's data is lost or was replaced: {witness} the data of the cluster {known}, which ZooKeeper does "
        f"not know. {_WHAT_TO_DO}"
    )
