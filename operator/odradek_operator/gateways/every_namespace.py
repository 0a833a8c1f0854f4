"""The resources of a kind in all namespaces that the operator manages.

The deletion of a namespace takes the operator's Role there with it, and resources in it may wait for the operator. So a
namespace that refuses the operator is left out, and keeps none of the others waiting. The watches name it
(`main.watches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek_operator.gateways.kubernetes import Api, Forbidden, Json, Kubernetes, NotFound


async def list_everywhere(
    kubernetes: Kubernetes, api: Api, namespaces: Sequence[str], *, labels: Mapping[str, str] | None = None
) -> list[Json]:
    """All of a kind; no namespaces stand for all, and a refusal of these is raised, as is any other KubernetesError."""
    found: list[Json] = []
    for namespace in namespaces or (None,):
        try:
            found += await kubernetes.list(api, namespace, labels=labels)
        except (Forbidden, NotFound):
            if namespace is None:
                raise
    return found
