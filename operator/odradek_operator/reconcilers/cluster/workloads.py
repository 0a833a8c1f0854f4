"""What a Cluster runs: its ZooKeeper servers, brokers and controllers, with the settings that they start with."""

from __future__ import annotations

from typing import Final

from odradek_operator.desired import brokers, controllers, zookeeper
from odradek_operator.desired.names import CONTROLLER, HTTP_PORT
from odradek_operator.gateways.kubernetes import PODS, NotFound, metadata
from odradek_operator.reconcilers.cluster import ensemble, facts, volumes
from odradek_operator.reconcilers.cluster.look import Look

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


async def apply_zookeeper(look: Look) -> None:
    """The ensemble, where it is run here."""
    servers = look.context.spec.zookeeper.servers
    if servers is None:
        return
    member = ensemble.membership(look.before, servers.size)
    config_map = zookeeper.zookeeper_config_map(look.context, servers, member)
    await look.applier.apply(look.key, config_map, look.objects)
    await volumes.apply_stateful_set(
        look, zookeeper.zookeeper_stateful_set(look.context, servers), servers.storage.size
    )


async def apply_brokers(look: Look) -> None:
    """Brokers' settings and StatefulSet."""
    await look.applier.apply(look.key, brokers.broker_config_map(look.context), look.objects)
    size = look.context.spec.brokers.storage.size
    await volumes.apply_stateful_set(look, brokers.broker_stateful_set(look.context), size)
    pods = [body for (kind, _), body in look.objects.items() if kind == "Pod" and facts.is_broker(body)]
    look.pods = facts.broker_pods(pods, look.stateful_set())


async def apply_controllers(look: Look) -> None:
    """Controllers: after the brokers' roll, unless there are none; the active one's pod goes last."""
    there = facts.set_state(look.objects.get(("Deployment", look.context.called(CONTROLLER))))
    brokers_settled = facts.set_state(look.stateful_set()).settled
    # Of a broker whose settings are not known nobody can say that it is done.
    others_roll = look.roll.left or look.servers_roll
    if there.there and there.ready and (others_roll or look.unknown or not brokers_settled):
        return
    await look.applier.apply(look.key, controllers.controller_config_map(look.context), look.objects)
    if there.there:
        await _protect_active_controller(look)
    await look.applier.apply(look.key, controllers.controller_deployment(look.context), look.objects)


async def _protect_active_controller(look: Look) -> None:
    for (kind, name), pod in look.objects.items():
        labels = metadata(pod).get("labels") or {}
        if kind != "Pod" or labels.get("app.kubernetes.io/component") != CONTROLLER:
            continue
        address = (pod.get("status") or {}).get("podIP")
        health = None if address is None else await look.admin.health(address, HTTP_PORT)
        active = health is not None and health.is_active_controller
        cost = "100" if active else None
        if (metadata(pod).get("annotations") or {}).get(DELETION_COST) == cost:
            continue
        try:
            await look.environment.kubernetes.set_annotations(
                PODS, look.key.namespace, name, {DELETION_COST: cost}
            )
        except NotFound:
            continue  # It went meanwhile, and need not be protected.
