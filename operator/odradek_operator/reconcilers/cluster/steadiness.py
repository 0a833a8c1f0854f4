"""The conditions for every step of a roll, for any kind of pod: ZooKeeper serves, sessions, an active controller.

A pod that is ready says nothing of the others. A broker whose session is not connected may be fenced soon, and without
an active controller no broker takes over what a stopping broker leads. So both are asked before a pod is taken away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from odradek_operator.desired.names import HTTP_PORT, ZOOKEEPER_PORT
from odradek_operator.gateways.cluster_admin import Health
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.run import ReconcileRun

Answer = TypeVar("Answer")


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


async def find_unsteadiness(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> str | None:
    """The condition that a step waits for before it takes a broker or controller which serves."""
    return waits_for(await observe(run, pods), takes_server=False)


async def observe(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> Observed:
    """The answers of all pods that are ready; they are asked together. `pods` are the brokers'."""
    servers = {pod.name: pod.address for pod in run.server_pods() if pod.ready}
    brokers = {pod.name: pod.address for pod in pods if pod.ready}
    controllers = {
        name: (pod.get("status") or {}).get("podIP")
        for name, pod in run.controller_pods().items()
        if facts.pod_is_ready(pod)
    }
    modes, of_brokers, of_controllers = await asyncio.gather(
        _ask(servers, lambda host: run.admin.read_zookeeper_mode(host, ZOOKEEPER_PORT)),
        _ask(brokers, lambda host: run.admin.read_health(host, HTTP_PORT, run.key)),
        _ask(controllers, lambda host: run.admin.read_health(host, HTTP_PORT, run.key)),
    )
    state = run.zookeeper()
    return Observed(
        servers=modes,
        servers_wanted=state.wanted if state is not None else 0,
        brokers=of_brokers,
        controllers=of_controllers,
    )


async def _ask(
    addresses: Mapping[str, str | None], ask: Callable[[str], Awaitable[Answer | None]]
) -> dict[str, Answer | None]:
    async def ask_one(address: str | None) -> Answer | None:
        return None if address is None else await ask(address)

    answers = await asyncio.gather(*(ask_one(address) for address in addresses.values()))
    return dict(zip(addresses, answers, strict=True))
