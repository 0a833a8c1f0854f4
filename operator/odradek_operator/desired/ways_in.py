"""Ingresses and TLSRoutes: for a listener one host for each broker, and one to begin at, over one port for all.

TLS is passed through, and the name in its first bytes (SNI) picks the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from odradek_operator.desired.names import BROKER, LISTENER_LABEL, Context, Json
from odradek_operator.desired.services import service_name
from odradek_operator.resources.listeners import BrokerAddress, ClusterListener, ListenerType

ROUTE_GROUP: Final = "gateway.networking.k8s.io"
# What makes common controllers pass TLS through; one that reads another takes it from `annotations`.
_PASSTHROUGH: Final = {
    "ingress.kubernetes.io/ssl-passthrough": "true",
    "nginx.ingress.kubernetes.io/ssl-passthrough": "true",
}


def ways_in(
    context: Context, brokers: Collection[int], *, route_version: str | None, has_ingresses: bool = True
) -> list[Json]:
    """The Ingresses and TLSRoutes of all listeners, for the brokers with these numbers.

    `route_version` is the version of TLSRoutes that the API server serves. There are none without it, and no Ingresses
    without `has_ingresses`.
    """
    found: list[Json] = []
    for listener in context.spec.listeners:
        for broker, host, more in _hosts(context, listener, brokers):
            if listener.type is ListenerType.INGRESS and has_ingresses:
                found.append(_ingress(context, listener, broker, host, more))
            elif listener.type is ListenerType.TLS_ROUTE and route_version is not None:
                found.append(_route(context, listener, broker, host, more, route_version))
    return found


def fill_host(context: Context, listener: ClusterListener, template: str, broker: int | None) -> str:
    """A host's template with the words in braces replaced, but that of a node."""
    return (
        template.replace("{broker}", "" if broker is None else str(broker))
        .replace("{cluster}", context.name)
        .replace("{namespace}", context.namespace)
        .replace("{listener}", listener.name)
    )


def _hosts(
    context: Context, listener: ClusterListener, brokers: Collection[int]
) -> Iterator[tuple[int | None, str, dict[str, str]]]:
    """(broker, host, annotations); the broker is None for the host to begin at. One without a host is left out."""
    common = dict(listener.annotations or {})
    if listener.bootstrap_host is not None:
        yield None, fill_host(context, listener, listener.bootstrap_host, None), common
    by_broker = {one.broker: one for one in listener.brokers}
    for broker in brokers:
        given = by_broker.get(broker) or BrokerAddress(broker=broker)
        template = given.host or listener.advertised_host
        if template is not None:
            yield (
                broker,
                fill_host(context, listener, template, broker),
                common | dict(given.annotations or {}),
            )


def _ingress(
    context: Context, listener: ClusterListener, broker: int | None, host: str, annotations: dict[str, str]
) -> Json:
    service = {"name": service_name(context, listener, broker), "port": {"number": listener.port}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    named = {} if listener.ingress_class_name is None else {"ingressClassName": listener.ingress_class_name}
    return context.manifest(
        "networking.k8s.io/v1",
        "Ingress",
        service_name(context, listener, broker),
        BROKER,
        labels={LISTENER_LABEL: listener.name},
        annotations=_PASSTHROUGH | annotations,
        spec={**named, "tls": [{"hosts": [host]}], "rules": [{"host": host, "http": {"paths": [path]}}]},
    )


def _route(
    context: Context,
    listener: ClusterListener,
    broker: int | None,
    host: str,
    annotations: dict[str, str],
    version: str,
) -> Json:
    # With all that the API server would add: server-side apply then finds nothing to change.
    service = {
        "group": "",
        "kind": "Service",
        "name": service_name(context, listener, broker),
        "port": listener.port,
        "weight": 1,
    }
    parents = [{"group": ROUTE_GROUP, "kind": "Gateway", **one} for one in listener.parent_refs]
    return context.manifest(
        f"{ROUTE_GROUP}/{version}",
        "TLSRoute",
        service_name(context, listener, broker),
        BROKER,
        labels={LISTENER_LABEL: listener.name},
        annotations=annotations,
        spec={"parentRefs": parents, "hostnames": [host], "rules": [{"backendRefs": [service]}]},
    )
