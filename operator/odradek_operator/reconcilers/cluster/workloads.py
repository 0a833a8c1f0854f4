"""The workloads of a Cluster: its ZooKeeper servers, brokers and controllers, with the settings for their start."""

from __future__ import annotations

from typing import Final

from odradek_operator.desired import brokers, controllers, zookeeper
from odradek_operator.desired.names import HTTP_PORT
from odradek_operator.gateways.kubernetes import PODS, NotFound, metadata
from odradek_operator.reconcilers.cluster import ensemble, volumes
from odradek_operator.reconcilers.cluster.run import ReconcileRun

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


async def apply_zookeeper(run: ReconcileRun) -> str | None:
    """Apply the ensemble, where the Cluster runs it; the answer is what is wrong with its volumes."""
    servers = run.context.spec.zookeeper.servers
    if servers is None:
        return None
    member = ensemble.membership(run.before, servers.size)
    await run.apply(zookeeper.zookeeper_config_map(run.context, servers, member))
    stateful_set = zookeeper.zookeeper_stateful_set(run.context, servers)
    return await volumes.apply_stateful_set(run, stateful_set, servers.storage.size)


async def apply_brokers(run: ReconcileRun) -> str | None:
    """Apply brokers' settings and StatefulSet; the answer is what is wrong with their volumes."""
    await run.apply(brokers.broker_config_map(run.context))
    size = run.context.spec.brokers.storage.size
    return await volumes.apply_stateful_set(run, brokers.broker_stateful_set(run.context), size)


async def apply_controllers(run: ReconcileRun, *, is_held: bool) -> None:
    """Apply controllers, after all other rolls; the active one's pod goes last.

    With `is_held`, controllers that serve stay as they are: servers or brokers are still to be rolled.
    """
    there = run.controllers()
    if there.there and there.ready and (is_held or not run.brokers().settled):
        return
    await run.apply(controllers.controller_config_map(run.context))
    if there.there:
        await _protect_active_controller(run)
    await run.apply(controllers.controller_deployment(run.context))


async def _protect_active_controller(run: ReconcileRun) -> None:
    for name, pod in run.controller_pods().items():
        address = (pod.get("status") or {}).get("podIP")
        health = None if address is None else await run.admin.health(address, HTTP_PORT, run.key)
        active = health is not None and health.is_active_controller
        cost = "100" if active else None
        if (metadata(pod).get("annotations") or {}).get(DELETION_COST) == cost:
            continue
        try:
            await run.environment.kubernetes.set_annotations(
                PODS, run.key.namespace, name, {DELETION_COST: cost}
            )
        except NotFound:
            continue  # It is gone by now, and need not be protected.
