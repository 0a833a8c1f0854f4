"""The strictness of the spread of pods over nodes and zones, where the Cluster leaves that to the operator.

It is decided once, when a set of pods is made, and read from the set after that. To decide again whenever nodes come or
go would change templates, and so replace pods, for nothing. What was decided strictly is given up in one case: a pod
that cannot be placed because of it. That can be when volumes hold two pods to one node and an empty node has joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from odradek_operator.desired.names import BROKER, CONTROLLER, NODE_LABEL, ZOOKEEPER, Hardness, zone_label
from odradek_operator.gateways.kubernetes import NODES, Forbidden, Json, metadata
from odradek_operator.reconcilers.cluster.facts import Objects
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.pods import Pod
from odradek_operator.resources.spreading import Strictness

# A node that restarts, and an autoscaler that brings another, take about as long.
WAITING_SECONDS_MAX: Final = 120.0
ZONES_MAX: Final = 3
_SETS: Final = {BROKER: "StatefulSet", CONTROLLER: "Deployment", ZOOKEEPER: "StatefulSet"}
_EXCLUDING_EFFECTS: Final = ("NoSchedule", "NoExecute")


async def decide_spread(run: ReconcileRun) -> Mapping[str, Hardness]:
    """The strictness by which the pods of each component are spread."""
    spec, found = run.context.spec, {}
    nodes: list[Json] | None = None
    for component, (pod, count) in _kinds(spec).items():
        if is_given(spec, pod):
            found[component] = strictness(spec, Hardness())
            continue
        kept = read_hardness(run.objects, component, run.context.object_name(component), zone_label(spec))
        if kept is None:
            if nodes is None:
                nodes = await _list_nodes(run)
            kept = judge_room(nodes, pod, count=count, label=zone_label(spec))
        elif (kept.nodes or kept.zones) and (
            name := find_waiting_pod(run.objects, component, run.environment.now(), spec)
        ):
            message = (
                f"{name} finds no place where it keeps the spread even; {component} pods are spread as far as possible "
                "from now on"
            )
            await run.report_event("SpreadSoftened", message, warning=True)
            kept = Hardness()
        found[component] = strictness(spec, kept)
    return found


def strictness(spec: ClusterSpec, auto: Hardness) -> Hardness:
    """The Cluster's own value, and `auto` where it has none."""

    def is_hard(asked: Strictness, decided: bool) -> bool:
        return decided if asked is Strictness.AUTO else asked is Strictness.REQUIRED

    return Hardness(
        nodes=is_hard(spec.spread.nodes, auto.nodes), zones=is_hard(spec.spread.zones, auto.zones)
    )


def is_given(spec: ClusterSpec, pod: Pod) -> bool:
    """Whether nothing is left to decide."""
    asked = (spec.spread.nodes, spec.spread.zones)
    return bool(pod.topology_spread_constraints) or Strictness.AUTO not in asked


def read_hardness(objects: Objects, component: str, name: str, label: str) -> Hardness | None:
    """The set's own value, or that of its pods while it is made again; None where there is neither."""
    there = objects.get((_SETS[component], name))
    if there is not None:
        return _parse_hardness(there["spec"]["template"]["spec"], label)
    return next(
        (_parse_hardness(body.get("spec") or {}, label) for _, body in _pods(objects, component)), None
    )


def judge_room(nodes: Iterable[Json], pod: Pod, *, count: int, label: str) -> Hardness:
    """Whether there are nodes and zones enough for so many pods, one on each."""
    if (pod.affinity or {}).get("nodeAffinity"):
        return Hardness()  # Which nodes it leaves is the scheduler's to say.
    if count == 1:
        return Hardness()
    usable = [node for node in nodes if _takes(node, pod)]
    zones = [(metadata(node).get("labels") or {}).get(label) for node in usable]
    return Hardness(
        nodes=len(usable) >= count,
        zones=all(zones) and len(set(zones)) >= min(count, ZONES_MAX),
    )


def find_waiting_pod(objects: Objects, component: str, now: datetime, spec: ClusterSpec) -> str | None:
    """A pod of this kind that the scheduler has long left out because of the spread."""
    if Strictness.AUTO not in (spec.spread.nodes, spec.spread.zones):
        return None
    for _, body in _pods(objects, component):
        for one in (body.get("status") or {}).get("conditions") or ():
            if one.get("type") != "PodScheduled" or one.get("status") != "False":
                continue
            since = datetime.fromisoformat(
                str(one.get("lastTransitionTime") or now.isoformat()).replace("Z", "+00:00")
            )
            is_long = now - since > timedelta(seconds=WAITING_SECONDS_MAX)
            if is_long and "topology spread constraints" in str(one.get("message")):
                return str(metadata(body)["name"])
    return None


async def _list_nodes(run: ReconcileRun) -> list[Json]:
    try:
        return list(await run.environment.kubernetes.list(NODES, None))
    except Forbidden:
        return []


def _kinds(spec: ClusterSpec) -> Mapping[str, tuple[Pod, int]]:
    kinds = {
        BROKER: (spec.brokers.pod, spec.brokers.replicas),
        CONTROLLER: (spec.controllers.pod, spec.controllers.replicas),
    }
    if servers := spec.zookeeper.servers:
        kinds[ZOOKEEPER] = (servers.pod, servers.size)
    return kinds


def _pods(objects: Objects, component: str) -> Iterable[tuple[str, Json]]:
    for (kind, name), body in objects.items():
        labels = metadata(body).get("labels") or {}
        if kind == "Pod" and labels.get("app.kubernetes.io/component") == component:
            yield name, body


def _parse_hardness(pod_spec: Json, label: str) -> Hardness:
    hard = {
        one.get("topologyKey")
        for one in pod_spec.get("topologySpreadConstraints") or ()
        if one.get("whenUnsatisfiable") == "DoNotSchedule"
    }
    return Hardness(nodes=NODE_LABEL in hard, zones=label in hard)


def _takes(node: Json, pod: Pod) -> bool:
    """Whether a node is up and takes such a pod."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    if spec.get("unschedulable"):
        return False
    if not any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()):
        return False
    if not (pod.node_selector or {}).items() <= (metadata(node).get("labels") or {}).items():
        return False
    return all(
        taint.get("effect") not in _EXCLUDING_EFFECTS
        or any(_tolerates(one, taint) for one in pod.tolerations or ())
        for taint in spec.get("taints") or ()
    )


def _tolerates(toleration: Mapping[str, object], taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )
