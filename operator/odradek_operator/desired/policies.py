"""Who may be disturbed, who may talk to whom, and who the pods are: budgets, NetworkPolicies, service accounts."""

from __future__ import annotations

from odradek_operator.desired.names import (
    BROKER,
    CONTROLLER,
    CONTROLLER_PORT,
    HTTP_PORT,
    INTERNAL_PORT,
    ZOOKEEPER,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Context,
    Json,
)


def components(context: Context) -> list[str]:
    """The kinds of pods that this Cluster has."""
    return [BROKER, CONTROLLER, *([ZOOKEEPER] if context.spec.zookeeper.servers is not None else [])]


def service_accounts(context: Context) -> list[Json]:
    """An account for each kind of pod, without rights and without a token."""
    return [
        context.manifest(
            "v1", "ServiceAccount", context.called(component), component, automountServiceAccountToken=False
        )
        for component in components(context)
    ]


def disruption_budgets(context: Context) -> list[Json]:
    """A node's drain takes one pod of a kind at a time, and one that does not serve anyway at any time."""
    return [
        context.manifest(
            "policy/v1",
            "PodDisruptionBudget",
            context.called(component),
            component,
            spec={
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": context.selector(component)},
            },
        )
        for component in components(context)
    ]


def network_policies(context: Context) -> list[Json]:
    """Who may connect. Measures and health are for all: probes and Prometheus come from anywhere."""
    brokers, controllers = _pods(context, BROKER), _pods(context, CONTROLLER)
    everybody_may_measure = {"ports": [_port(HTTP_PORT)]}
    clients = context.spec.network.clients
    to_brokers: Json = {"ports": [_port(INTERNAL_PORT), *(_port(one.port) for one in context.spec.listeners)]}
    ingress = [to_brokers, everybody_may_measure]
    if clients is not None:
        to_brokers["from"] = [brokers, controllers, *clients]
        # The operator administers through the internal listener. Labels alone would let in any pod that copies them.
        operator = {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "odradek-operator"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.operator_namespace}},
        }
        ingress.append({"ports": [_port(INTERNAL_PORT)], "from": [operator]})
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
                    {"ports": [_port(ZOOKEEPER_PORT)], "from": [brokers, controllers]},
                    {"ports": peers, "from": [_pods(context, ZOOKEEPER)]},
                ],
            )
        )
    return policies


def _policy(context: Context, component: str, ingress: list[Json]) -> Json:
    return context.manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        context.called(component),
        component,
        spec={
            "podSelector": {"matchLabels": context.selector(component)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    )


def _pods(context: Context, component: str) -> Json:
    return {"podSelector": {"matchLabels": context.selector(component)}}


def _port(port: int) -> Json:
    return {"protocol": "TCP", "port": port}
