"""Requests for a pod: an annotation on it, which no watch brings.

Watching pods would bring every pod of every namespace, with each of its probes' changes. So Clusters' pods are
listed from time to time instead, with one request for the whole process. The Clusters of pods that carry a request are
reconciled.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.desired.names import CLUSTER_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.every_namespace import list_everywhere
from odradek_operator.gateways.kubernetes import CLUSTERS, FIELD_MANAGER, PODS, Kubernetes, metadata
from odradek_operator.reconcilers.cluster.facts import asks_for_replacement, asks_for_roll

_PODS = {"app.kubernetes.io/managed-by": FIELD_MANAGER}


async def requested(kubernetes: Kubernetes, namespaces: Sequence[str]) -> set[Key]:
    """The Clusters with a pod that is to be replaced; no namespaces stand for all. Raises KubernetesError."""
    found: set[Key] = set()
    for pod in await list_everywhere(kubernetes, PODS, namespaces, labels=_PODS):
        about = metadata(pod)
        cluster = (about.get("labels") or {}).get(CLUSTER_LABEL)
        if cluster and (asks_for_replacement(pod) or asks_for_roll(pod)):
            found.add(Key(CLUSTERS.kind, str(about["namespace"]), str(cluster)))
    return found
