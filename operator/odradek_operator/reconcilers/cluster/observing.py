"""Asks all pods that serve what `steadiness` judges: modes of ZooKeeper servers, health of brokers and controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek_operator.desired.names import HTTP_PORT, ZOOKEEPER_PORT
from odradek_operator.reconcilers.cluster import facts, steadiness
from odradek_operator.reconcilers.cluster.run import ReconcileRun

Answer = TypeVar("Answer")


async def find_unsteadiness(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> str | None:
    """The condition that a step waits for before it takes a broker or controller which serves."""
    return steadiness.waits_for(await observe(run, pods), takes_server=False)


async def observe(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> steadiness.Observed:
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
    return steadiness.Observed(
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
