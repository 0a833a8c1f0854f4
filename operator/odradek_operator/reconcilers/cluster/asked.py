"""A controller's pod that somebody asked to be rolled, by an annotation.

Brokers and ZooKeeper's servers are a part of their own rolls (`rolling`, `ensemble_rolling`).
"""

from __future__ import annotations

from odradek_operator.desired.names import CONTROLLER
from odradek_operator.gateways.kubernetes import PODS, metadata
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.look import Look
from odradek_operator.reconcilers.cluster.replacing import unsteady


async def roll_asked(look: Look) -> None:
    """Replace one controller that somebody asked for, when all of them serve and the cluster is steady."""
    if look.roll.left or look.servers_roll:
        return  # ZooKeeper's servers and brokers go first.
    state = facts.set_state(look.objects.get(("Deployment", look.context.called(CONTROLLER))))
    if not (state.there and state.settled and state.ready == state.wanted == state.current):
        return
    for (kind, name), pod in look.objects.items():
        if kind != "Pod" or facts.component_of(pod) != CONTROLLER or not facts.asks_for_roll(pod):
            continue
        if await unsteady(look) is None:
            await look.environment.report_event(
                look.body, "PodRestarts", f"{name}: it was asked to be restarted"
            )
            await look.environment.kubernetes.delete(
                PODS, look.key.namespace, name, uid=metadata(pod).get("uid")
            )
        return
