"""The way out when no operator is left: take its finalizer off everything, and delete its Lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek_operator.gateways.kubernetes import APIS, LEASES, Kubernetes, NotFound, metadata
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, remove_finalizer
from odradek_operator.resources.kinds import DEFINITIONS


async def strip(
    kubernetes: Kubernetes,
    namespaces: Sequence[str],
    *,
    say: Callable[[str], None],
    lease: str | None = None,
) -> int:
    """Release every resource, and name it. A kind that is not installed has none. Raises KubernetesError.

    `lease` is NAMESPACE/NAME of the Lease that goes with the operator, if it is to be deleted.
    """
    stripped = 0
    for definition in DEFINITIONS:
        api = APIS[definition.kind]
        for namespace in namespaces or (None,):
            try:
                found = await kubernetes.list(api, namespace)
            except NotFound:
                continue
            for body in found:
                if CLEANUP_FINALIZER in (metadata(body).get("finalizers") or ()):
                    await remove_finalizer(kubernetes, api, body)
                    say(f"{api.kind} {metadata(body)['namespace']}/{metadata(body)['name']}")
                    stripped += 1
    if lease is not None:
        namespace, _, name = lease.partition("/")
        await kubernetes.delete(LEASES, namespace, name)
        say(f"Lease {lease}")
    return stripped
