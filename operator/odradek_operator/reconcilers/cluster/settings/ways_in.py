"""What there is of a Cluster's Ingresses and TLSRoutes, and what keeps them from being made or from leading anywhere.

They are read only where a listener has them, or had. Kubernetes need not have TLSRoutes, and a role of an earlier chart
has no right to either kind. So they are not watched. What others change in them is put right at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from odradek_operator.desired.names import CLUSTER_LABEL, LISTENER_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.desired.ways_in import ROUTE_GROUP
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    INGRESSES,
    TLS_ROUTES,
    Api,
    Forbidden,
    Json,
    Kubernetes,
    NotFound,
    metadata,
)
from odradek_operator.reconcilers.cluster.facts import Objects
from odradek_operator.reconcilers.ownership import Belonging, belonging
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.listeners import ListenerType

# The newest first: an API server that serves several converts.
ROUTE_VERSIONS: Final = ("v1", "v1alpha3", "v1alpha2")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysIn:
    """The kinds that may be made, and the problem of listeners that need another: TLSRoutes in the version that is
    served, and Ingresses.
    """

    route_version: str | None = None
    has_ingresses: bool = True
    reason: str = ""
    problem: str | None = None


async def read_ways_in(
    kubernetes: Kubernetes,
    key: Key,
    uid: str,
    spec: ClusterSpec,
    before: ClusterStatus,
    objects: dict[tuple[str, str], Json],
) -> WaysIn:
    """Add what there is to `objects`. A kind that is not there, or may not be read, is a problem for its listeners."""
    wanted = {one.type for one in spec.listeners}
    looked_for = {str(one) for one in wanted} | {one.type for one in before.listeners}
    found = WaysIn()
    if ListenerType.INGRESS in looked_for:
        try:
            await _read(kubernetes, INGRESSES, key, uid, objects)
        except Forbidden as refusal:
            found = replace(_forbidden(INGRESSES, refusal), has_ingresses=False)
    if ListenerType.TLS_ROUTE not in looked_for:
        return found
    for version in ROUTE_VERSIONS:
        api = TLS_ROUTES._replace(group_version=f"{ROUTE_GROUP}/{version}")
        try:
            await _read(kubernetes, api, key, uid, objects)
        except NotFound:
            continue
        except Forbidden as refusal:
            return replace(_forbidden(TLS_ROUTES, refusal), has_ingresses=found.has_ingresses)
        return replace(found, route_version=version)
    if ListenerType.TLS_ROUTE not in wanted:
        return found
    names = ", ".join(one.name for one in spec.listeners if one.type is ListenerType.TLS_ROUTE)
    message = (
        f"Kubernetes has no TLSRoutes, which lead to the brokers for {names}. Install the definitions of the Gateway "
        "API with TLSRoute in them, and a gateway that serves it. They are looked for again"
    )
    return replace(found, reason="NoGatewayApi", problem=message)


def find_refused_route(objects: Objects) -> str | None:
    """A TLSRoute that a gateway does not accept, and why; None where all are accepted or not looked at yet."""
    for (kind, name), body in sorted(objects.items()):
        if kind != TLS_ROUTES.kind:
            continue
        for parent in (body.get("status") or {}).get("parents") or ():
            for one in parent.get("conditions") or ():
                if one.get("type") in ("Accepted", "ResolvedRefs") and one.get("status") == "False":
                    gateway = (parent.get("parentRef") or {}).get("name")
                    reason = one.get("message") or one.get("reason")
                    return f"the gateway {gateway} does not take the TLSRoute {name}: {reason}"
    return None


async def _read(
    kubernetes: Kubernetes, api: Api, key: Key, uid: str, objects: dict[tuple[str, str], Json]
) -> None:
    labels = {CLUSTER_LABEL: key.name, MANAGED_BY_LABEL: MANAGED_BY}
    for body in await kubernetes.list(api, key.namespace, labels=labels):
        is_of_listener = LISTENER_LABEL in (metadata(body).get("labels") or {})
        if is_of_listener and belonging(body, name=key.name, uid=uid) is Belonging.OWN:
            objects[api.kind, metadata(body)["name"]] = body


def _forbidden(api: Api, refusal: Forbidden) -> WaysIn:
    message = (
        f"the operator may not see {api.plural}, which lead to the brokers: {refusal}. Give its role this right, as "
        "the present chart does"
    )
    return WaysIn(reason="Forbidden", problem=message)
