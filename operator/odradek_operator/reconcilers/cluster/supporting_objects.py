"""Objects that a Cluster's pods need: accounts, Services, budgets, network policies, and ConfigMaps for clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.desired import policies, services
from odradek_operator.desired.binding import binding_config_map, spark_config_map
from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER
from odradek_operator.gateways.kubernetes import NODES, Forbidden, Json, metadata
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.addresses import ExternalAddresses, external_addresses
from odradek_operator.reconcilers.cluster.run import ReconcileRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """Zones by node, or why they cannot be read."""

    by_node: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


async def read_zones(run: ReconcileRun) -> Zones:
    """Zones by node, where the Cluster asks for them. Without the right to read nodes there are none."""
    label = run.context.spec.brokers.rack_label
    if label is None:
        return Zones()
    try:
        found = await run.environment.kubernetes.list(NODES, None)
    except Forbidden as failure:
        problem = (
            f"brokers have no racks: {failure}. Give the operator the right to read nodes (rbac.nodes of its "
            "chart), or take brokers.rackLabel away"
        )
        return Zones(problem=problem)
    return Zones(by_node=facts.zones(found, label))


async def apply_accounts(run: ReconcileRun) -> None:
    """The pods' ServiceAccounts. They come before all pods: a pod without its account is not made."""
    await run.apply_all(policies.service_accounts(run.context))


async def apply_supporting_objects(run: ReconcileRun) -> ExternalAddresses:
    """Apply Services, budgets, policies and bindings. The answer is what brokers advertise because of them."""
    context = run.context
    most = max(run.scale.pods, context.spec.brokers.replicas)
    wanted = [
        *services.own_services(context),
        *services.external_services(context, most),
        *policies.disruption_budgets(context),
        *(policies.network_policies(context) if context.spec.network.enabled else ()),
        binding_config_map(context),
        spark_config_map(context),
    ]
    await run.apply_all(wanted)
    found = external_addresses(context, run.objects, run.scale.pods, known=run.before.listeners)
    # `evictions` applies the brokers' budgets, when it knows whether one may go.
    budgets = policies.broker_budgets(context, is_held=True)
    await _prune(run, [*policies.service_accounts(context), *wanted, *budgets])
    return found


async def _prune(run: ReconcileRun, wanted: list[Json]) -> None:
    names = {BROKER, CONTROLLER, ZOOKEEPER}
    workloads = [
        body
        for (kind, name), body in run.objects.items()
        if kind in ("ConfigMap", "StatefulSet", "Deployment")
        and name.removeprefix(f"{run.context.name}-") in names
    ]
    await run.applier.prune(run.key, [*wanted, *workloads], run.objects, owner=metadata(run.body)["uid"])
