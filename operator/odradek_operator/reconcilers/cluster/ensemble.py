"""The ZooKeeper that a Cluster runs: how many servers it has, and whether their data is still the Cluster's."""

from __future__ import annotations

from dataclasses import replace

from odradek_operator.desired.names import VOLUME, ZOOKEEPER
from odradek_operator.reconcilers.cluster.facts import BrokerPod, Objects
from odradek_operator.resources.cluster import ENSEMBLE_SIZE, ClusterSpec, ClusterStatus


def with_size(spec: ClusterSpec, name: str, before: ClusterStatus, objects: Objects) -> ClusterSpec:
    """The same, with the number of servers that the ensemble has, or is to have where there is none yet.

    An ensemble that is there keeps its number, whatever the spec says: servers that are taken away or added by a new
    configuration alone may form two ensembles.
    """
    servers = spec.zookeeper.servers
    if servers is None:
        return spec
    size = _there(name, before, objects)
    if size is None:
        size = servers.replicas or (1 if spec.brokers.replicas == 1 else ENSEMBLE_SIZE)
    return replace(spec, zookeeper=replace(spec.zookeeper, servers=replace(servers, replicas=size)))


def _there(name: str, before: ClusterStatus, objects: Objects) -> int | None:
    """How many servers there are: by the status, the StatefulSet, or volumes that an earlier Cluster left."""
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


def size_problem(wanted: ClusterSpec, in_use: ClusterSpec) -> str | None:
    """What is said where the spec asks for another number of servers than there are."""
    servers, there = wanted.zookeeper.servers, in_use.zookeeper.servers
    if servers is None or there is None or servers.replicas in (None, there.replicas):
        return None
    return (
        f"there are {there.replicas} ZooKeeper servers, and spec.zookeeper.servers.replicas is {servers.replicas}. The "
        f"number cannot be changed, and stays; set it to {there.replicas}, or leave it out"
    )


def data_problem(pods: tuple[BrokerPod, ...], known: str | None, told: str | None) -> str | None:
    """What is said where the ensemble has another cluster's data than the brokers, or none.

    `known` is the id that the Cluster has had, `told` the one that brokers tell now.
    """
    if known is None:
        return None
    by = [
        pod.broker for pod in pods if f"belongs to the cluster {known}, and the registry to" in pod.last_words
    ]
    if not by and told in (None, known):
        return None
    who = f"broker {by[0]} has" if by else "this Cluster has had"
    return (
        f"ZooKeeper's data is lost or was replaced: {who} the data of the cluster {known}, which ZooKeeper does not "
        "know. All records are still on the brokers' volumes: keep these. Put ZooKeeper's data back from a backup of "
        "its volumes"
    )
