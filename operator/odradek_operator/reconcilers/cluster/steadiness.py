"""The conditions for every step of a roll, for any kind of pod: ZooKeeper serves, sessions, an active controller.

A pod that is ready says nothing of the others. A broker whose session is not connected may be fenced soon, and without
an active controller no broker takes over what a stopping broker leads. So both are asked before a pod is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.gateways.cluster_admin import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The answers of a Cluster's pods, by pod. None is no answer. Pods that are not ready are not asked."""

    servers: Mapping[str, str | None] = field(default_factory=dict)
    """ZooKeeper servers' modes; empty where the Cluster runs none."""
    servers_wanted: int = 0
    controllers: Mapping[str, Health | None] = field(default_factory=dict)
    brokers: Mapping[str, Health | None] = field(default_factory=dict)

    @property
    def leader(self) -> str | None:
        """The pod of the server that leads the ensemble."""
        return next((name for name, mode in self.servers.items() if mode in ("leader", "standalone")), None)


def waits_for(observed: Observed, *, takes_server: bool) -> str | None:
    """Return the condition that the next step waits for, or None when it need not wait.

    A step that `takes_server` of ZooKeeper waits for all of its servers, the others for more than half of them.
    """
    serving = [name for name, mode in observed.servers.items() if mode is not None]
    needed = observed.servers_wanted if takes_server else observed.servers_wanted // 2 + 1
    if observed.servers_wanted and len(serving) < needed:
        silent = [name for name, mode in observed.servers.items() if mode is None]
        which = f": {silent[0]} is ready and does not serve" if silent else ""
        return f"{len(serving)} of {observed.servers_wanted} ZooKeeper servers serve{which}"
    if observed.servers_wanted and observed.leader is None:
        return "ZooKeeper's servers have no leader"
    for name, health in (*observed.brokers.items(), *observed.controllers.items()):
        if health is None:
            return f"{name} does not answer the operator"
        if not health.has_session:
            return f"{name} has no connection to ZooKeeper"
    active = [health for health in observed.controllers.values() if health and health.is_active_controller]
    if len(active) != 1:
        return "no controller is active" if not active else "more than one controller says that it is active"
    if active[0].followers < len(observed.brokers):
        return f"{active[0].followers} of {len(observed.brokers)} brokers follow the active controller"
    return None
