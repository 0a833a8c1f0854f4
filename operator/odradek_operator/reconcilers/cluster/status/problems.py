"""The problems that stop pods from being made or coming up, in Kubernetes' own words: quotas, claims, images, crashes.

The status of a StatefulSet does not show why a pod cannot be made, nor a claim's why it has no volume. Events show
both. They are read only while pods are missing or not ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from odradek_operator.desired.names import BROKER, CONTROLLER, VOLUME, ZOOKEEPER, Context
from odradek_operator.gateways.kubernetes import EVENTS, Forbidden, Json, Kubernetes, metadata
from odradek_operator.reconcilers.cluster.facts import Objects, pod_is_ready, pod_problem, set_state

# Kubernetes tries to make a pod again after 17 minutes at most. An older event may be of a refusal that is over.
_EVENT_AGE_MAX: Final = timedelta(minutes=20)
_SETS: Final = ((ZOOKEEPER, "StatefulSet"), (BROKER, "StatefulSet"), (CONTROLLER, "Deployment"))


@dataclass(frozen=True, slots=True)
class Problems:
    """Why pods are not made, by component; and why pods that are there do not come up, by name."""

    not_made: Mapping[str, str] = field(default_factory=dict)
    of_pods: Mapping[str, str] = field(default_factory=dict)

    def of(self, component: str, prefix: str) -> str | None:
        """One problem of a component whose pods' names begin with `prefix`."""
        of_pod = next(
            (f"{name}: {why}" for name, why in self.of_pods.items() if name.startswith(prefix)), None
        )
        return self.not_made.get(component) or of_pod


async def read_problems(
    kubernetes: Kubernetes, context: Context, objects: Objects, now: datetime
) -> Problems:
    """Return the problems of a Cluster's pods. Raises KubernetesError."""
    not_made: dict[str, str] = {}
    of_pods: dict[str, str] = {}
    events = _Events(kubernetes, context.namespace, now)
    of_pools = [(BROKER, "StatefulSet", context.object_name(pool.suffix)) for pool in context.pools]
    own = [(component, kind, context.object_name(component)) for component, kind in _SETS]
    for component, kind, name in (*own, *of_pools):
        body = objects.get((kind, name))
        state = set_state(body)
        if body is None or state.ready >= state.wanted:
            continue
        pods = [
            one
            for (sort, pod), one in objects.items()
            if sort == "Pod"
            and (pod.startswith(f"{name}-") if kind == "Deployment" else pod.rpartition("-")[0] == name)
        ]
        if len(pods) < state.wanted:
            refused = replica_failure(body) if kind == "Deployment" else await events.find_newest(kind, name)
            if refused is not None:
                not_made[component] = f"Kubernetes does not make the pods: {refused}"
        for pod in pods:
            if pod_is_ready(pod):
                continue
            pod_name = str(metadata(pod)["name"])
            claim = objects.get(("PersistentVolumeClaim", f"{VOLUME}-{pod_name}"))
            of_claim = await _find_claim_problem(events, claim)
            if (problem := of_claim or pod_problem(pod)) is not None:
                of_pods[pod_name] = problem
    return Problems(not_made, of_pods)


async def _find_claim_problem(events: _Events, claim: Json | None) -> str | None:
    if claim is None or (claim.get("status") or {}).get("phase") != "Pending":
        return None
    name = str(metadata(claim)["name"])
    warning = await events.find_newest("PersistentVolumeClaim", name)
    if warning is None:
        return None
    class_ = (claim.get("spec") or {}).get("storageClassName")
    return f"the claim {name} (storage class {class_ or 'by default'}) has no volume: {warning}"


def replica_failure(deployment: Json) -> str | None:
    """Why Kubernetes does not make the pods of a Deployment; None where it does."""
    for one in (deployment.get("status") or {}).get("conditions") or ():
        if one["type"] == "ReplicaFailure" and one["status"] == "True":
            return str(one.get("message") or one.get("reason"))
    return None


class _Events:
    """Kubernetes' warnings of objects in one namespace."""

    def __init__(self, kubernetes: Kubernetes, namespace: str, now: datetime) -> None:
        self._kubernetes = kubernetes
        self._namespace = namespace
        self._oldest = now - _EVENT_AGE_MAX

    async def find_newest(self, kind: str, name: str) -> str | None:
        """The newest warning of an object, None where there is none or it may not be read."""
        fields = {"involvedObject.kind": kind, "involvedObject.name": name, "type": "Warning"}
        try:
            found = await self._kubernetes.list(EVENTS, self._namespace, fields=fields)
        except Forbidden:
            return None
        timed = [
            (time, event) for event in found if (time := _time(event)) is not None and time >= self._oldest
        ]
        if not timed:
            return None
        _, newest = max(timed, key=lambda one: one[0])
        return str(newest.get("message") or newest.get("reason"))


def _time(event: Json) -> datetime | None:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return None if last is None else datetime.fromisoformat(str(last))
