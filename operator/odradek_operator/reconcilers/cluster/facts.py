"""Facts of a Cluster, as values read from Kubernetes' objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek_operator.desired.names import (
    BROKER,
    CAUGHT_UP_LABEL,
    CLUSTER_LABEL,
    POOL_LABEL,
    REPLACE_ANNOTATION,
    ROLL_ANNOTATION,
    ZOOKEEPER,
    pool_suffix,
)
from odradek_operator.gateways.kubernetes import Json, metadata

_LINE_LENGTH_MAX = 500
Objects = Mapping[tuple[str, str], Json]
"""Objects by kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAtRisk:
    """A volume that goes with its pod. `why` is what has happened to its claim; `volume` is the PersistentVolume."""

    claim: str
    volume: str | None
    why: str

    def __str__(self) -> str:
        return f"the volume claim {self.claim} {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPod:
    """A broker's pod. `current` is whether it was made from the StatefulSet's newest template.

    `at_risk` is its volume, where that does not outlive the pod.
    """

    broker: int
    name: str
    uid: str
    ready: bool
    deleting: bool
    current: bool
    replace: bool
    address: str | None
    node: str | None
    node_address: str | None
    problem: str | None
    termination_message: str = ""
    roll: bool = False
    caught_up: bool = False
    at_risk: VolumeAtRisk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """A ZooKeeper server's pod; `current` and `at_risk` as of a broker's."""

    name: str
    uid: str
    ready: bool
    deleting: bool
    current: bool
    roll: bool
    address: str | None
    termination_message: str = ""
    at_risk: VolumeAtRisk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetState:
    """A StatefulSet or Deployment: wanted, ready, current pods. `settled` is whether Kubernetes has seen its newest
    form.
    """

    there: bool = False
    wanted: int = 0
    ready: int = 0
    current: int = 0
    settled: bool = False
    deleting: bool = False


def set_state(body: Json | None) -> SetState:
    """The state in the status of a StatefulSet or Deployment."""
    if body is None:
        return SetState()
    spec, status = body.get("spec") or {}, body.get("status") or {}
    wanted, updated = int(spec.get("replicas") or 0), int(status.get("updatedReplicas") or 0)
    # A Deployment has one pod more while it rolls: the ready one may still be the old one.
    former = int(status.get("replicas") or 0) - updated
    if former > 0:
        updated = max(0, min(updated, wanted - former))
    settled = int(status.get("observedGeneration") or 0) >= int(metadata(body).get("generation") or 0)
    return SetState(
        there=True,
        wanted=wanted,
        ready=int(status.get("readyReplicas") or 0),
        current=updated if settled else 0,
        settled=settled,
        deleting=bool(metadata(body).get("deletionTimestamp")),
    )


def broker_pods(
    pods: Iterable[Json], stateful_sets: Iterable[Json] | None, at_risk: Mapping[str, VolumeAtRisk]
) -> tuple[BrokerPod, ...]:
    """The brokers' pods, sorted by number, without other pods.

    `stateful_sets` are those of all pools; `at_risk` are the volumes that do not outlive their pods, by pod.
    """
    newest = {
        str(metadata(one)["name"]): (one.get("status") or {}).get("updateRevision")
        for one in stateful_sets or ()
    }
    found = [
        _broker_pod(pod, newest.get(_set_of(pod)), at_risk.get(metadata(pod)["name"]))
        for pod in pods
        if _number(pod) is not None
    ]
    return tuple(sorted(found, key=lambda pod: pod.broker))


def server_pods(
    objects: Objects, stateful_set: Json | None, at_risk: Mapping[str, VolumeAtRisk]
) -> tuple[ServerPod, ...]:
    """The ZooKeeper servers' pods, sorted by number."""
    newest = ((stateful_set or {}).get("status") or {}).get("updateRevision")
    found = [body for (kind, _), body in objects.items() if kind == "Pod" and component_of(body) == ZOOKEEPER]
    return tuple(
        _server_pod(body, newest, at_risk.get(metadata(body)["name"]))
        for body in sorted(found, key=lambda body: _number(body) or 0)
    )


def component_of(body: Json) -> str | None:
    """The role of a pod in a Cluster: broker, controller or zookeeper."""
    found = (metadata(body).get("labels") or {}).get("app.kubernetes.io/component")
    return None if found is None else str(found)


def _server_pod(pod: Json, newest: str | None, at_risk: VolumeAtRisk | None) -> ServerPod:
    meta, status = metadata(pod), pod.get("status") or {}
    return ServerPod(
        name=meta["name"],
        uid=meta.get("uid", ""),
        ready=pod_is_ready(pod) and not meta.get("deletionTimestamp"),
        deleting=bool(meta.get("deletionTimestamp")),
        current=newest is None or (meta.get("labels") or {}).get("controller-revision-hash") == newest,
        roll=asks_for_roll(pod),
        address=status.get("podIP"),
        termination_message=_termination_message(status),
        at_risk=at_risk,
    )


def broker_numbers(objects: Objects) -> frozenset[int]:
    """The brokers that have a pod, whatever has become of their StatefulSet."""
    numbers = (_number(body) for (kind, _), body in objects.items() if kind == "Pod" and is_broker(body))
    return frozenset(number for number in numbers if number is not None)


def is_broker(pod: Json) -> bool:
    """Whether a pod is a broker's: it has its labels, and the name that its StatefulSet gives."""
    labels = metadata(pod).get("labels") or {}
    number = str(metadata(pod)["name"]).rpartition("-")[2]
    pool = labels.get(POOL_LABEL)
    suffix = BROKER if pool is None else pool_suffix(str(pool))
    is_named = _set_of(pod) == f"{labels.get(CLUSTER_LABEL)}-{suffix}" and number.isdecimal()
    return is_named and labels.get("app.kubernetes.io/component") == BROKER


def asks_for_replacement(pod: Json) -> bool:
    """Whether an annotation asks for a new pod with a new volume."""
    return _is_asked(pod, REPLACE_ANNOTATION)


def asks_for_roll(pod: Json) -> bool:
    """Whether an annotation asks for a new pod with the same volume."""
    return _is_asked(pod, ROLL_ANNOTATION) and not metadata(pod).get("deletionTimestamp")


def _is_asked(pod: Json, annotation: str) -> bool:
    return str((metadata(pod).get("annotations") or {}).get(annotation, "")).lower() == "true"


def _broker_pod(pod: Json, newest: str | None, at_risk: VolumeAtRisk | None) -> BrokerPod:
    meta, status, spec = metadata(pod), pod.get("status") or {}, pod.get("spec") or {}
    labels = meta.get("labels") or {}
    number = _number(pod)
    assert number is not None
    return BrokerPod(
        broker=number,
        name=meta["name"],
        uid=meta.get("uid", ""),
        ready=pod_is_ready(pod) and not meta.get("deletionTimestamp"),
        deleting=bool(meta.get("deletionTimestamp")),
        current=newest is None or labels.get("controller-revision-hash") == newest,
        replace=asks_for_replacement(pod),
        address=status.get("podIP"),
        node=spec.get("nodeName"),
        node_address=status.get("hostIP"),
        problem=pod_problem(pod),
        termination_message=_termination_message(status),
        roll=asks_for_roll(pod),
        caught_up=labels.get(CAUGHT_UP_LABEL) == "true",
        at_risk=at_risk,
    )


def _set_of(pod: Json) -> str:
    return str(metadata(pod)["name"]).rpartition("-")[0]


def join_states(states: Sequence[SetState]) -> SetState:
    """The state of several sets as of one."""
    there = [one for one in states if one.there]
    return SetState(
        there=bool(there),
        wanted=sum(one.wanted for one in there),
        ready=sum(one.ready for one in there),
        current=sum(one.current for one in there),
        settled=bool(there) and all(one.settled for one in there),
        deleting=any(one.deleting for one in there),
    )


def _number(pod: Json) -> int | None:
    last = str(metadata(pod)["name"]).rpartition("-")[2]
    return int(last) if last.isdecimal() else None


def pod_is_ready(pod: Json) -> bool:
    """Whether a pod's readiness probe succeeds."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _termination_message(status: Json) -> str:
    """The message of a container that ended with an error; empty for one that did not."""
    for one in status.get("containerStatuses") or ():
        for state in (one.get("state"), one.get("lastState")):
            if message := ((state or {}).get("terminated") or {}).get("message"):
                return str(message)
    return ""


def pod_problem(pod: Json) -> str | None:
    """Why a pod does not come up, in Kubernetes' words; of a crash, the last line that the container wrote."""
    status: Json = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        last = _last_line(one)
        if last is not None and (waiting or not one.get("ready")):
            # Kubernetes' own message counts the seconds of its pause, and says no more.
            return f"{waiting.get('reason') or 'restarted'}: {last}"
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return str(one.get("message") or one.get("reason") or "it cannot be scheduled")
    return None


def _last_line(container: Json) -> str | None:
    """The end of what a container that failed wrote (terminationMessagePolicy: FallbackToLogsOnError)."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    ended = (container.get("state") or {}).get("terminated") or ended
    if not ended or ended.get("exitCode") == 0:
        return None
    lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
    how = f"it ended with exit code {ended.get('exitCode')}"
    if ended.get("reason") == "OOMKilled":
        how = "it was killed for using more memory than its limit (OOMKilled)"
    return f"{how}: {lines[-1][:_LINE_LENGTH_MAX]}" if lines else how


def zones(nodes: Iterable[Json], label: str) -> dict[str, str]:
    """Zones by node, of the nodes that have the label."""
    found = {metadata(node)["name"]: (metadata(node).get("labels") or {}).get(label) for node in nodes}
    return {node: zone for node, zone in found.items() if zone}


def node_is_lost(node: Json | None) -> bool:
    """Whether a pod's node is gone or does not answer: its pods must be removed by force."""
    if node is None:
        return True
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] != "True" for one in conditions)
