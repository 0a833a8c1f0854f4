"""Carries out what `rolling` and `ensemble_rolling` decide: one pod is replaced, if one may be.

ZooKeeper's servers go first, then brokers, then controllers. Each step asks all pods that serve whether the cluster is
steady (`steadiness`): that costs some requests, so it is asked only where a pod that serves would go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from odradek_operator.desired.names import CONTROLLER, HTTP_PORT, VOLUME, ZOOKEEPER_PORT
from odradek_operator.gateways.kubernetes import NODES, PODS, VOLUME_CLAIMS, Forbidden
from odradek_operator.reconcilers.cluster import ensemble_rolling, evictions, facts, rolling, steadiness
from odradek_operator.reconcilers.cluster.look import Look

Answer = TypeVar("Answer")


async def roll_brokers(look: Look) -> None:
    """Replace one pod, if one may be."""
    state = facts.set_state(look.stateful_set())
    if not state.there or not state.settled or state.deleting:
        return
    look.reasons = rolling.reasons_to_roll(look.pods, look.settings.restart)
    asked = [
        (pod.broker, pod.address)
        for pod in rolling.needs_answers(look.pods, look.reasons)
        if pod.address is not None
    ]
    told = await asyncio.gather(*(look.admin.restart_answer(host, HTTP_PORT) for _, host in asked))
    answers = {broker: answer for (broker, _), answer in zip(asked, told, strict=True)}
    roll = rolling.next_pod(look.pods, look.reasons, answers, wanted=state.wanted)
    if roll.replace is not None and roll.replace.ready:
        waiting = "ZooKeeper's servers are being replaced" if look.servers_roll else await unsteady(look)
        roll = rolling.held(roll, waiting)
    look.roll = roll
    if roll.replace is not None:
        await _replace(look, roll.replace)


async def roll_servers(look: Look) -> None:
    """Replace one ZooKeeper server's pod, if one may be."""
    state = look.zookeeper()
    if state is None or not state.there or not state.settled or state.deleting:
        return
    pods = look.servers()
    reasons = ensemble_rolling.reasons_to_roll(pods)
    if not reasons:
        return
    observed = await observe(look)
    look.server_roll = roll = ensemble_rolling.next_server(
        pods,
        reasons,
        wanted=state.wanted,
        leader=observed.leader,
        waits_for=steadiness.waits_for(observed, takes_server=True),
    )
    if (pod := roll.replace) is not None:
        await look.environment.report_event(look.body, "PodRestarts", f"{pod.name}: {roll.why}")
        await look.environment.kubernetes.delete(PODS, look.key.namespace, pod.name, uid=pod.uid)


async def unsteady(look: Look) -> str | None:
    """What a step that takes a broker or controller which serves would have to wait for."""
    return steadiness.waits_for(await observe(look), takes_server=False)


async def observe(look: Look) -> steadiness.Observed:
    """What all pods that are ready answer; they are asked together."""
    servers = {pod.name: pod.address for pod in look.servers() if pod.ready}
    brokers = {pod.name: pod.address for pod in look.pods if pod.ready}
    controllers = {
        name: (pod.get("status") or {}).get("podIP")
        for (kind, name), pod in look.objects.items()
        if kind == "Pod" and facts.component_of(pod) == CONTROLLER and facts.pod_is_ready(pod)
    }
    modes, of_brokers, of_controllers = await asyncio.gather(
        _asked(servers, lambda host: look.admin.zookeeper_mode(host, ZOOKEEPER_PORT)),
        _asked(brokers, lambda host: look.admin.health(host, HTTP_PORT)),
        _asked(controllers, lambda host: look.admin.health(host, HTTP_PORT)),
    )
    state = look.zookeeper()
    return steadiness.Observed(
        servers=modes,
        servers_wanted=state.wanted if state is not None else 0,
        brokers=of_brokers,
        controllers=of_controllers,
    )


async def _asked(
    addresses: Mapping[str, str | None], ask: Callable[[str], Awaitable[Answer | None]]
) -> dict[str, Answer | None]:
    async def of(address: str | None) -> Answer | None:
        return None if address is None else await ask(address)

    told = await asyncio.gather(*(of(address) for address in addresses.values()))
    return dict(zip(addresses, told, strict=True))


async def _replace(look: Look, pod: facts.BrokerPod) -> None:
    kubernetes = look.environment.kubernetes
    if look.roll.never_safe:
        await look.environment.report_event(
            look.body,
            "PartitionsAway",
            f"while broker {pod.broker} restarts, these take no records with acks=all: "
            f"{rolling.named(look.roll.never_safe)}",
            warning=True,
        )
    if pod.replace:
        # The volume first: its claim stays until the pod is gone, and the new pod gets a new one.
        claim = f"{VOLUME}-{pod.name}"
        await kubernetes.delete(VOLUME_CLAIMS, look.key.namespace, claim)
    # A drain that asks in the moment between would take another broker.
    await evictions.hold(look)
    await look.environment.report_event(look.body, "BrokerRestarts", f"broker {pod.broker}: {look.roll.why}")
    await kubernetes.delete(PODS, look.key.namespace, pod.name, uid=pod.uid)


async def force_lost_pods(look: Look) -> None:
    """A pod that was asked to be replaced and whose node is lost stops never by itself."""
    for pod in look.pods:
        if not (pod.replace and pod.deleting) or pod.node is None:
            continue
        try:
            node = await look.environment.kubernetes.get(NODES, None, pod.node)
        except Forbidden:
            continue
        if facts.node_is_lost(node):
            # The claim first: a volume of the lost node would hold the new pod to it.
            claim = f"{VOLUME}-{pod.name}"
            await look.environment.kubernetes.delete(VOLUME_CLAIMS, look.key.namespace, claim)
            await look.environment.kubernetes.delete(
                PODS, look.key.namespace, pod.name, uid=pod.uid, force=True
            )
