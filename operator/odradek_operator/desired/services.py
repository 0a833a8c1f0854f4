"""Services: headless ones for names of pods, one to begin at, and for each listener to the outside one for each
broker.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.foundation.settings.processes import process_port
from odradek_operator.desired.names import (
    BROKER,
    CONTROLLER,
    CONTROLLER_PORT,
    HTTP_PORT,
    INTERNAL_PORT,
    LISTENER_LABEL,
    REPLICATION_PORT,
    ZOOKEEPER,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Context,
    Json,
)
from odradek_operator.resources.listeners import PASSED_THROUGH, BrokerAddress, ClusterListener, ListenerType

_POD_LABEL: Final = "statefulset.kubernetes.io/pod-name"


def own_services(context: Context) -> list[Json]:
    """Those inside of Kubernetes."""
    internal, http = _port("internal", INTERNAL_PORT), _port("http", HTTP_PORT)
    own = [] if context.spec.internal_listener is None else [_port("replication", REPLICATION_PORT)]
    services = [
        _headless(context, "brokers", BROKER, [internal, *own, http]),
        _service(context, "bootstrap", BROKER, [internal, *own]),
        _headless(context, "controllers", CONTROLLER, [_port("controller", CONTROLLER_PORT), http]),
    ]
    servers = context.spec.zookeeper.servers
    if servers is not None:
        client = _port("client", ZOOKEEPER_PORT)
        leader, election = ZOOKEEPER_PEER_PORTS
        peers = [_port("leader", leader), _port("election", election)]
        # Where there is one pod, all wait for it: they may find it before a probe has said what its port says anyway.
        early = {"publishNotReadyAddresses": True} if servers.size == 1 else {}
        services += [
            _headless(context, "zookeepers", ZOOKEEPER, [client, *peers]),
            _service(context, ZOOKEEPER, ZOOKEEPER, [client], **early),
        ]
    return services


def external_services(context: Context, brokers: Collection[int]) -> list[Json]:
    """Those of the listeners to the outside, for the brokers with these numbers."""
    services: list[Json] = []
    for listener in context.spec.listeners:
        by_broker = {one.broker: one for one in listener.brokers}
        services.append(_environment(context, listener, "bootstrap", None))
        services += [
            _environment(
                context, listener, str(broker), by_broker.get(broker) or BrokerAddress(broker=broker)
            )
            for broker in brokers
        ]
    return services


def service_name(context: Context, listener: ClusterListener, broker: int | None) -> str:
    """The Service of a listener for a broker, or to begin at."""
    return context.object_name(f"{listener.name}-{'bootstrap' if broker is None else broker}")


def _environment(
    context: Context, listener: ClusterListener, suffix: str, address: BrokerAddress | None
) -> Json:
    selector = context.selector(BROKER)
    is_passed_through = listener.type in PASSED_THROUGH
    # Those of the Ingress or TLSRoute are not the Service's.
    annotations = {} if is_passed_through else dict(listener.annotations or {})
    port = _port(listener.name, listener.port)
    spec: Json = {}
    more: list[Json] = []
    if address is not None:
        # Several brokers run in the pod, each at a port of its own; the first port is all brokers'.
        processes = context.processes_of(address.broker)
        more = [
            _port(f"{listener.name}-{number}", process_port(listener.port, number))
            for number in range(1, processes + 1)
            if processes > 1
        ]
        selector[_POD_LABEL] = context.broker_pod(address.broker)
        annotations |= {} if is_passed_through else address.annotations or {}
        if address.node_port is not None:
            port["nodePort"] = address.node_port
        if address.load_balancer_ip is not None:
            spec["loadBalancerIP"] = address.load_balancer_ip
    if listener.type in (ListenerType.NODE_PORT, ListenerType.LOAD_BALANCER):
        spec["type"] = str(listener.type)
        spec["externalTrafficPolicy"] = "Local" if listener.local_traffic else "Cluster"
    if listener.type is ListenerType.LOAD_BALANCER:
        if listener.load_balancer_source_ranges:
            spec["loadBalancerSourceRanges"] = list(listener.load_balancer_source_ranges)
        if listener.load_balancer_class is not None:
            spec["loadBalancerClass"] = listener.load_balancer_class
    return context.manifest(
        "v1",
        "Service",
        context.object_name(f"{listener.name}-{suffix}"),
        BROKER,
        labels={LISTENER_LABEL: listener.name},
        annotations=annotations,
        spec={"type": "ClusterIP", **spec, "selector": selector, "ports": [port, *more]},
    )


def _headless(context: Context, suffix: str, component: str, ports: list[Json]) -> Json:
    # Brokers and servers must find each other before they can be ready.
    return _service(context, suffix, component, ports, clusterIP="None", publishNotReadyAddresses=True)


def _service(context: Context, suffix: str, component: str, ports: list[Json], **spec: object) -> Json:
    spec |= {"selector": context.selector(component), "ports": ports}
    return context.manifest("v1", "Service", context.object_name(suffix), component, spec=spec)


def _port(name: str, port: int) -> Json:
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
