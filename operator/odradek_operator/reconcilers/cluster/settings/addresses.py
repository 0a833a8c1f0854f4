"""The addresses that brokers advertise to external clients: from Services, load balancers, or templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek_operator.desired.names import Context
from odradek_operator.desired.services import service_name
from odradek_operator.desired.ways_in import fill_host
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.reconcilers.cluster.facts import Objects
from odradek_operator.resources.brokers import BROKERS_MAX
from odradek_operator.resources.cluster_status import ListenerStatus
from odradek_operator.resources.listeners import (
    PASSED_THROUGH,
    PASSED_THROUGH_PORT,
    BrokerAddress,
    ClusterListener,
    ListenerType,
)

NODE_IP: Final = "${NODE_IP}"
PENDING: Final = "pending"
"""The text of the status for an address that is not there yet."""


@dataclass(frozen=True, slots=True)
class PendingAddresses:
    """An address that is not there yet, and why."""

    listener: str
    broker: int
    reason: str


class ExternalAddresses(NamedTuple):
    """`host:port` by listener and broker, None where Kubernetes has not given one yet; and what is missing."""

    by_listener: dict[str, dict[int, str | None]]
    pending: tuple[PendingAddresses, ...]


def external_addresses(
    context: Context,
    objects: Objects,
    brokers: Collection[int],
    *,
    known: Sequence[ListenerStatus] = (),
    known_brokers: Sequence[int] | None = None,
) -> ExternalAddresses:
    """The addresses of the external listeners for the brokers with these numbers.

    A load balancer that has lost its address for now keeps the one that is `known`, in the order of `known_brokers`.
    Otherwise brokers would restart twice: to remove the address, and to take the new one.
    """
    order = range(BROKERS_MAX) if known_brokers is None else known_brokers
    known_hosts = {
        one.name: dict(zip(order, one.brokers, strict=False))
        for one in known
        if one.type == ListenerType.LOAD_BALANCER
    }
    addresses: dict[str, dict[int, str | None]] = {}
    pending: list[PendingAddresses] = []
    for listener in context.spec.listeners:
        by_broker = {one.broker: one for one in listener.brokers}
        found: dict[int, str | None] = {}
        for broker in brokers:
            service = objects.get(("Service", service_name(context, listener, broker)))
            given = by_broker.get(broker) or BrokerAddress(broker=broker)
            host = _host(context, listener, given, service)
            port = _port(listener, given, service)
            if host is None or port is None:
                what = "an address from the load balancer" if host is None else "a port of the nodes"
                pending.append(PendingAddresses(listener.name, broker, what))
            if host is None and listener.type is ListenerType.LOAD_BALANCER:
                host = _host_before(known_hosts.get(listener.name, {}), broker)
            found[broker] = None if host is None or port is None else f"{_bracket_host(host)}:{port}"
        addresses[listener.name] = found
    return ExternalAddresses(addresses, tuple(pending))


def bootstrap_address(
    context: Context, listener: ClusterListener, objects: Objects, nodes: list[str]
) -> str | None:
    """The bootstrap address for external clients: the listener's Service, by any node or the load balancer."""
    service = objects.get(("Service", service_name(context, listener, None)))
    if service is None:
        return None
    match listener.type:
        case ListenerType.INTERNAL:
            return f"{context.dns_name(service_name(context, listener, None))}:{listener.port}"
        case ListenerType.LOAD_BALANCER:
            host = _ingress(service)
            return None if host is None else f"{_bracket_host(host)}:{listener.port}"
        case ListenerType.INGRESS | ListenerType.TLS_ROUTE:
            if listener.bootstrap_host is None:
                return None
            host = fill_host(context, listener, listener.bootstrap_host, None)
            return f"{host}:{listener.advertised_port or PASSED_THROUGH_PORT}"
        case ListenerType.NODE_PORT:
            port = _node_port(service)
            return None if port is None or not nodes else f"{_bracket_host(nodes[0])}:{port}"


def _host(
    context: Context, listener: ClusterListener, given: BrokerAddress, service: Json | None
) -> str | None:
    template = given.host or listener.advertised_host
    if template is not None:
        return fill_host(context, listener, template, given.broker).replace("{nodeIP}", NODE_IP)
    match listener.type:
        case ListenerType.INTERNAL:
            return context.dns_name(service_name(context, listener, given.broker))
        case ListenerType.NODE_PORT:
            return NODE_IP
        case ListenerType.LOAD_BALANCER:
            return _ingress(service)
        case ListenerType.INGRESS | ListenerType.TLS_ROUTE:
            return None  # Its definition asks for a template.


def _port(listener: ClusterListener, given: BrokerAddress, service: Json | None) -> int | None:
    if given.port is not None:
        return given.port
    is_node_port = listener.type is ListenerType.NODE_PORT
    if listener.advertised_port is not None:
        return listener.advertised_port + (given.broker if is_node_port else 0)
    if listener.type in PASSED_THROUGH:
        return PASSED_THROUGH_PORT
    return _node_port(service) if is_node_port else listener.port


def _node_port(service: Json | None) -> int | None:
    ports: list[Json] = ((service or {}).get("spec") or {}).get("ports") or []
    return ports[0].get("nodePort") if ports else None


def _ingress(service: Json | None) -> str | None:
    found = (((service or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return (found[0].get("hostname") or found[0].get("ip")) if found else None


def _host_before(addresses: Mapping[int, str], broker: int) -> str | None:
    address = addresses.get(broker, PENDING)
    return None if address == PENDING else address.rpartition(":")[0].strip("[]")


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
