"""What surrounds a Cluster's pods: accounts, Services, budgets, network policies, and what clients are given."""

from __future__ import annotations

from dataclasses import replace

from odradek_operator.desired import policies, services
from odradek_operator.desired.binding import binding_config_map, spark_config_map
from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER
from odradek_operator.gateways.kubernetes import NODES, Forbidden, Json, metadata
from odradek_operator.reconcilers.cluster import addresses, facts
from odradek_operator.reconcilers.cluster.look import Look


async def read_zones(look: Look) -> None:
    """Zones by node, where the Cluster asks for them. Without the right to read nodes there are none."""
    label = look.context.spec.brokers.rack_label
    if label is None:
        return
    try:
        found = await look.environment.kubernetes.list(NODES, None)
    except Forbidden as failure:
        look.zones_problem = (
            f"brokers have no racks: {failure}. Give the operator the right to read nodes (rbac.nodes of its "
            "chart), or take brokers.rackLabel away"
        )
        return
    look.context = replace(look.context, zones=facts.zones(found, label))


async def apply_accounts(look: Look) -> None:
    """Who the pods are: before all pods, since a pod without its account is not made."""
    await look.applier.apply_all(look.key, policies.service_accounts(look.context), look.objects)


async def apply_surroundings(look: Look) -> None:
    """Services, budgets, policies and bindings; then the addresses that brokers will tell follow."""
    most = max(look.scale.pods, look.context.spec.brokers.replicas)
    accounts = policies.service_accounts(look.context)
    wanted = [
        *services.own_services(look.context),
        *services.outside_services(look.context, most),
        *policies.disruption_budgets(look.context),
        *(policies.network_policies(look.context) if look.context.spec.network.enabled else ()),
        binding_config_map(look.context),
        spark_config_map(look.context),
    ]
    await look.applier.apply_all(look.key, wanted, look.objects)
    found, look.pending = addresses.outside_addresses(
        look.context, look.objects, look.scale.pods, known=look.before.listeners
    )
    look.context = replace(look.context, addresses=found)
    # `evictions` applies the brokers' budgets, when it knows whether one may go.
    budgets = policies.broker_budgets(look.context, is_held=True)
    await _prune(look, [*accounts, *wanted, *budgets])


async def _prune(look: Look, wanted: list[Json]) -> None:
    names = {BROKER, CONTROLLER, ZOOKEEPER}
    workloads = [
        body
        for (kind, name), body in look.objects.items()
        if kind in ("ConfigMap", "StatefulSet", "Deployment")
        and name.removeprefix(f"{look.context.name}-") in names
    ]
    await look.applier.prune(look.key, [*wanted, *workloads], look.objects, owner=metadata(look.body)["uid"])
