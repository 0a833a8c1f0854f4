"""A pod that somebody asked to be rolled, by an annotation: controllers and ZooKeeper servers.

Brokers are a part of the brokers' roll, which knows what a restart would make unwritable (`rolling`).
"""

from __future__ import annotations

from odradek_operator.desired.names import CONTROLLER, ZOOKEEPER
from odradek_operator.gateways.kubernetes import PODS, metadata
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.run import Look


async def roll_asked(look: Look) -> None:
    """Replace one controller or ZooKeeper server that somebody asked for, when all of its kind serve."""
    if look.roll.left:
        return  # A broker goes first: ZooKeeper and brokers do not roll at the same time.
    for (kind, name), pod in look.objects.items():
        component = (metadata(pod).get("labels") or {}).get("app.kubernetes.io/component")
        if kind != "Pod" or component not in (CONTROLLER, ZOOKEEPER) or not facts.asks_for_roll(pod):
            continue
        set_kind = "Deployment" if component == CONTROLLER else "StatefulSet"
        state = facts.set_state(look.objects.get((set_kind, look.context.called(component))))
        if state.there and state.settled and state.ready == state.wanted == state.current:
            await look.outside.tell(look.body, "PodRestarts", f"{name}: it was asked to be restarted")
            await look.outside.kubernetes.delete(PODS, look.key.namespace, name, uid=metadata(pod).get("uid"))
            return
