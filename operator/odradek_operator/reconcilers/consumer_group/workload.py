"""The Deployment or StatefulSet that runs a group's consumers: how many there are, and setting that number."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.desired.names import MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.gateways.kubernetes import APIS, Forbidden, Kubernetes, metadata
from odradek_operator.reconcilers.consumer_group.facts import Desired, ScaleWorkload, WorkloadSeen
from odradek_operator.resources.workloads import ScalableWorkload


async def observe_workload(
    kubernetes: Kubernetes, namespace: str, desired: Desired, scalable: Sequence[ScalableWorkload]
) -> WorkloadSeen | None:
    """The workload that the resource names; None where it names none. `scalable` are those that the Cluster allows.

    Raises KubernetesError, but not Forbidden: that is a part of what was seen.
    """
    named = desired.spec.workload
    if named is None or desired.is_deleted:
        return None
    if not any(one.covers(named) for one in scalable):
        not_allowed = (
            f"the Cluster {desired.spec.cluster} does not let ConsumerGroups scale {named}; add "
            f"{{kind: {named.kind}, name: {named.name}}} to spec.scalableWorkloads of the Cluster, or take "
            "workload away"
        )
        return WorkloadSeen(not_allowed=not_allowed)
    try:
        body = await kubernetes.get(APIS[str(named.kind)], namespace, named.name)
    except Forbidden as refusal:
        return WorkloadSeen(refusal=str(refusal))
    if body is None:
        return WorkloadSeen()
    if (metadata(body).get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGED_BY:
        not_allowed = f"{named} is a part of a Cluster, which alone says how many there are; correct workload"
        return WorkloadSeen(not_allowed=not_allowed)
    spec = body.get("spec") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return WorkloadSeen(
        # A Deployment that names no number has one.
        replicas=int(spec.get("replicas", 1)),
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())) or None,
    )


async def scale_workload(kubernetes: Kubernetes, namespace: str, step: ScaleWorkload) -> None:
    """Set the number of replicas. Raises KubernetesError."""
    manifest = {
        "apiVersion": APIS[step.kind].group_version,
        "kind": step.kind,
        "metadata": {"name": step.name, "namespace": namespace},
        "spec": {"replicas": step.replicas},
    }
    await kubernetes.apply(manifest)
