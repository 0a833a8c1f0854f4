"""The resources of a kind in all namespaces that the operator manages.

The deletion of a namespace takes the operator's Role there with it, and resources in it may wait for the operator. So a
namespace that refuses the operator is left out, and keeps none of the others waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from odradek_operator.gateways.kubernetes import Api, Forbidden, Json, Kubernetes

logger = logging.getLogger(__name__)


async def list_everywhere(
    kubernetes: Kubernetes, api: Api, namespaces: Sequence[str], *, labels: Mapping[str, str] | None = None
) -> list[Json]:
    """All of a kind; no namespaces stand for all, and a refusal of these is raised, as is any other KubernetesError."""
    found: list[Json] = []
    for namespace in namespaces or (None,):
        try:
            found += await kubernetes.list(api, namespace, labels=labels)
        except Forbidden as refusal:
            if namespace is None:
                raise
            logger.warning(
                "%s of the namespace %s are left out; take a deleted namespace out of watch.namespaces: %s",
                api.plural,
                namespace,
                refusal,
            )
    return found
