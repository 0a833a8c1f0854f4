"""Carries out what `rolling` and `ensemble_rolling` decide: one pod is replaced, if one may be.

ZooKeeper's servers go first, then brokers, then controllers. Each step asks all pods that serve whether the cluster is
steady (`steadiness`). That costs some requests, so a step asks only where a pod that serves would go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek_operator.desired.names import BROKER, CONTROLLER, VOLUME, ZOOKEEPER
from odradek_operator.gateways.kubernetes import NODES, PODS, VOLUME_CLAIMS, Forbidden, metadata
from odradek_operator.reconcilers.cluster import facts, steadiness
from odradek_operator.reconcilers.cluster.restart_words import format_names
from odradek_operator.reconcilers.cluster.rolling import evictions, order
from odradek_operator.reconcilers.cluster.rolling.order import Roll
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.steadiness import find_unsteadiness, observe
from odradek_operator.reconcilers.cluster.zookeeper import ensemble_rolling
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_rolling import ServerRoll


async def roll_servers(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> ServerRoll:
    """Replace one ZooKeeper server's pod, if one may be. `pods` are the brokers'."""
    state = run.zookeeper()
    if state is None or not state.there or not state.settled or state.deleting:
        return ServerRoll()
    servers = run.server_pods()
    reasons = ensemble_rolling.reasons_to_roll(servers)
    if not reasons:
        return ServerRoll()
    if (missing := run.missing.waiting(ZOOKEEPER)) is not None:
        return ServerRoll(left=tuple(sorted(reasons)), waiting=missing)
    observed = await observe(run, pods)
    roll = ensemble_rolling.next_server(
        servers,
        reasons,
        wanted=state.wanted,
        leader=observed.leader,
        waits_for=steadiness.waits_for(observed, takes_server=True),
    )
    if (pod := roll.replace) is not None:
        await run.report_event("PodRestarts", f"{pod.name}: {roll.why}")
        await run.delete(PODS, pod.name, uid=pod.uid)
    return roll


async def roll_brokers(
    run: ReconcileRun,
    pods: tuple[facts.BrokerPod, ...],
    restart: Mapping[int, tuple[str, ...]],
    *,
    servers_change: bool,
) -> Roll:
    """Replace one broker's pod, if one may be. `restart` says for brokers why their settings need it."""
    state = run.brokers()
    if not state.there or not state.settled or state.deleting:
        return Roll()
    reasons = order.reasons_to_roll(pods, restart)
    missing = run.missing.waiting(BROKER)
    if missing is not None:
        return Roll(left=tuple(sorted(reasons)), waiting=missing)
    answers = await evictions.restart_answers(run.admin, order.needs_answers(pods, reasons), run.key)
    roll = order.next_pod(pods, reasons, answers, wanted=state.wanted)
    if roll.replace is not None and roll.replace.ready:
        waiting = (
            "ZooKeeper's servers are being replaced" if servers_change else await find_unsteadiness(run, pods)
        )
        roll = order.hold_roll(roll, waiting)
    if roll.replace is not None:
        await _replace(run, roll, roll.replace)
    return roll


async def _replace(run: ReconcileRun, roll: Roll, pod: facts.BrokerPod) -> None:
    if roll.never_safe:
        message = (
            f"while broker {pod.broker} restarts, these take no records with acks=all: "
            f"{format_names(roll.never_safe)}"
        )
        await run.report_event("PartitionsAway", message, warning=True)
    if pod.replace:
        # The volume first: its claim stays until the pod is gone, and the new pod gets a new one.
        await run.delete(VOLUME_CLAIMS, f"{VOLUME}-{pod.name}")
    # A drain that asks in the moment between would take another broker.
    await evictions.hold(run, keeps_unready=bool(run.at_risk))
    await run.report_event("BrokerRestarts", f"broker {pod.broker}: {roll.why}")
    await run.delete(PODS, pod.name, uid=pod.uid)


async def roll_controllers(run: ReconcileRun, pods: Sequence[facts.BrokerPod], *, is_held: bool) -> None:
    """Replace one controller whose pod asks for it by an annotation, once all of them serve and all is steady.

    With `is_held` none is replaced: ZooKeeper's servers and brokers go first.
    """
    state = run.controllers()
    if run.missing.waiting(CONTROLLER) is not None:
        return
    if is_held or not (state.there and state.settled and state.ready == state.wanted == state.current):
        return
    asking = [(name, pod) for name, pod in run.controller_pods().items() if facts.asks_for_roll(pod)]
    if not asking or await find_unsteadiness(run, pods) is not None:
        return
    name, pod = asking[0]
    await run.report_event("PodRestarts", f"{name}: it was asked to be restarted")
    await run.delete(PODS, name, uid=metadata(pod).get("uid"))


async def force_lost_pods(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> None:
    """Remove pods that are to be replaced and whose node is lost: these never stop by themselves."""
    for pod in pods:
        if not (pod.replace and pod.deleting) or pod.node is None:
            continue
        try:
            node = await run.environment.kubernetes.get(NODES, None, pod.node)
        except Forbidden:
            continue
        if facts.node_is_lost(node):
            # The claim first: a volume of the lost node would hold the new pod to it.
            await run.delete(VOLUME_CLAIMS, f"{VOLUME}-{pod.name}")
            await run.delete(PODS, pod.name, uid=pod.uid, force=True)
