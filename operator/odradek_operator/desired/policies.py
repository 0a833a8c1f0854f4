"""Disruption budgets, NetworkPolicies and service accounts of a Cluster's pods."""

from __future__ import annotations

from odradek.foundation.settings.processes import process_port
from odradek_operator.desired.names import (
    BROKER,
    CAUGHT_UP_LABEL,
    CONSOLE,
    CONTROLLER,
    CONTROLLER_PORT,
    HTTP_PORT,
    INTERNAL_PORT,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REPLICATION_PORT,
    ZOOKEEPER,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Context,
    Json,
    shows_label,
)
from odradek_operator.desired.zookeeper_access import client_rules

# `kubectl describe poddisruptionbudget` shows it, which explains why a drain waits.
_WHY_HELD = (
    "No broker may be evicted while partitions would fall below min.insync.replicas by it, or a broker is not ready. "
    "Nor while a volume with the last copy of something would go with its pod. "
    "The condition Evictions of the Cluster {cluster} names them."
)


def components(context: Context) -> list[str]:
    """The kinds of pods that this Cluster has."""
    return [BROKER, CONTROLLER, *([ZOOKEEPER] if context.spec.zookeeper.servers is not None else [])]


def service_accounts(context: Context) -> list[Json]:
    """An account for each kind of pod, without rights and without a token."""
    return [
        context.manifest(
            "v1",
            "ServiceAccount",
            context.object_name(component),
            component,
            automountServiceAccountToken=False,
        )
        for component in components(context)
    ]


def disruption_budgets(context: Context, *, keeps_servers: bool = False) -> list[Json]:
    """Of controllers and ZooKeeper servers: a drain takes one pod of a kind at a time.

    With `keeps_servers` no ZooKeeper server: its volume would go with its pod, and no other server has the data.
    """
    budgets = []
    for component in components(context):
        if component != BROKER:
            is_held = keeps_servers and component == ZOOKEEPER
            selector = {"matchLabels": context.selector(component)}
            budgets.append(
                _budget(
                    context,
                    context.object_name(component),
                    component,
                    selector,
                    max_unavailable=0 if is_held else 1,
                    keeps_unready=is_held,
                )
            )
    return budgets


def broker_budgets(context: Context, *, is_held: bool, keeps_unready: bool = False) -> list[Json]:
    """Of brokers: one at a time, and none while `is_held`.

    Pods that do not serve may go all the same, except with `keeps_unready`.

    The first budget counts only pods that carry the label odradek.io/caught-up, against all that the StatefulSet is to
    have. So a new pod is missing in it until the operator has seen its partitions in sync, even where the operator is
    away. The second keeps the pods without the label, which no budget would cover otherwise.
    """
    has_label = {"matchLabels": {**context.selector(BROKER), CAUGHT_UP_LABEL: "true"}}
    has_none = {
        "matchLabels": context.selector(BROKER),
        "matchExpressions": [{"key": CAUGHT_UP_LABEL, "operator": "DoesNotExist"}],
    }
    return [
        _budget(
            context,
            context.object_name("broker-catching-up"),
            BROKER,
            has_none,
            max_unavailable=0,
            keeps_unready=keeps_unready,
        ),
        _budget(
            context,
            context.object_name(BROKER),
            BROKER,
            has_label,
            max_unavailable=0 if is_held else 1,
            keeps_unready=keeps_unready,
        ),
    ]


def _budget(
    context: Context, name: str, component: str, selector: Json, *, max_unavailable: int, keeps_unready: bool
) -> Json:
    # A pod that does not serve anyway may go at any time: it may be the node that keeps it from serving.
    spec = {
        "maxUnavailable": max_unavailable,
        "unhealthyPodEvictionPolicy": "IfHealthyBudget" if keeps_unready else "AlwaysAllow",
        "selector": selector,
    }
    why = {"kubernetes.io/description": _WHY_HELD.format(cluster=context.name)} if component == BROKER else {}
    return context.manifest("policy/v1", "PodDisruptionBudget", name, component, annotations=why, spec=spec)


def network_policies(context: Context) -> list[Json]:
    """The clients that may connect. Metrics and health are for all: probes and Prometheus connect from anywhere."""
    brokers, controllers = _pods(context, BROKER), _pods(context, CONTROLLER)
    # Labels alone would let in any pod that copies them.
    operator = {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "odradek-operator"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.operator_namespace}},
    }
    everybody_may_measure = {"ports": [_port(HTTP_PORT)]}
    clients = context.spec.network.clients
    internal = _ports(context, INTERNAL_PORT)
    external = [port for one in context.spec.listeners for port in _ports(context, one.port)]
    to_brokers: Json = {"ports": [*internal, *external]}
    ingress = [to_brokers, everybody_may_measure]
    if clients is not None:
        console = [] if context.spec.console is None else [_pods(context, CONSOLE)]
        to_brokers["from"] = [brokers, controllers, *console, _consoles_of_others(context), *clients]
        # The operator administers through the internal listener, where brokers have none of their own.
        ingress.append({"ports": internal, "from": [operator]})
    if context.spec.internal_listener is not None:
        ingress.append({"ports": _ports(context, REPLICATION_PORT), "from": [brokers, operator]})
    policies = [
        _policy(context, BROKER, ingress),
        _policy(
            context,
            CONTROLLER,
            [{"ports": [_port(CONTROLLER_PORT)], "from": [brokers, controllers]}, everybody_may_measure],
        ),
    ]
    if context.spec.zookeeper.servers is not None:
        peers = [_port(port) for port in ZOOKEEPER_PEER_PORTS]
        policies.append(
            _policy(
                context,
                ZOOKEEPER,
                [
                    # The operator asks each server whether it serves (`srvr`).
                    {"ports": [_port(ZOOKEEPER_PORT)], "from": [brokers, controllers, operator]},
                    *client_rules(context),
                    {"ports": peers, "from": [_pods(context, ZOOKEEPER)]},
                ],
            )
        )
    return policies


def _policy(context: Context, component: str, ingress: list[Json]) -> Json:
    return context.manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        context.object_name(component),
        component,
        spec={
            "podSelector": {"matchLabels": context.selector(component)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    )


def _pods(context: Context, component: str) -> Json:
    return {"podSelector": {"matchLabels": context.selector(component)}}


def _consoles_of_others(context: Context) -> Json:
    """Consoles of other Clusters of the namespace that show this one. Their owners name it in a field of theirs."""
    labels = {
        MANAGED_BY_LABEL: MANAGED_BY,
        "app.kubernetes.io/component": CONSOLE,
        shows_label(context.name): "true",
    }
    return {"podSelector": {"matchLabels": labels}}


def _ports(context: Context, port: int) -> list[Json]:
    """A port of brokers' pods, and those of the several brokers in them."""
    count = context.processes_max
    return [_port(process_port(port, number)) for number in range(count + 1 if count > 1 else 1)]


def _port(port: int) -> Json:
    return {"protocol": "TCP", "port": port}
