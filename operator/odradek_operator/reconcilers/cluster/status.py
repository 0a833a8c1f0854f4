"""The status of a Cluster besides its conditions, composed from what a run found; and when to look again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from odradek_operator.desired.names import BROKER, ZOOKEEPER
from odradek_operator.reconcilers.cluster.addresses import NODE_IP, PENDING, bootstrap_address
from odradek_operator.reconcilers.cluster.findings import Findings
from odradek_operator.reconcilers.cluster.images import version_of
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.storage import is_bound
from odradek_operator.resources.cluster_status import ClusterStatus, ListenerStatus, Pods

BUSY_SECONDS: Final = 1.0
UNSETTLED_SECONDS: Final = 5.0
# What cannot be done as long as the Cluster is as it is: an event brings the next run sooner.
BLOCKED_SECONDS: Final = 30.0


def cluster_status(run: ReconcileRun, found: Findings) -> ClusterStatus:
    """The status without its conditions."""
    context, spec, before = run.context, run.context.spec, run.before
    controllers, zookeeper = run.controllers(), found.zookeeper
    pods = _broker_counts(run, found)
    is_whole = _is_whole(run, found, pods)
    return replace(
        before,
        brokers=pods,
        controllers=Pods(
            wanted=spec.controllers.replicas, ready=controllers.ready, current=controllers.current
        ),
        zookeeper=None
        if zookeeper is None or spec.zookeeper.servers is None
        else Pods(wanted=spec.zookeeper.servers.size, ready=zookeeper.ready, current=zookeeper.current),
        ensemble=found.ensemble.ensemble or before.ensemble,
        bootstrap=context.bootstrap,
        listeners=_listeners(run, found),
        image=context.image if is_whole else before.image,
        version=version_of(context.image) if is_whole else before.version,
        # Once known it stays: brokers that have another id are a problem, which a condition reports.
        cluster_id=before.cluster_id or found.settings.cluster_id,
        movement=found.move.movement,
        restart=context.restart or None,
        live_settings=found.settings.plan.live or before.live_settings,
        bound_volumes=tuple(
            component
            for component in (BROKER, ZOOKEEPER)
            if any(is_bound(claim) for claim in run.claims(context.object_name(component)))
        ),
    )


def again_seconds(run: ReconcileRun, found: Findings, status: ClusterStatus) -> float | None:
    """Return the seconds until the next run without an event, or None once all is as wanted."""
    assert status.brokers is not None
    brokers, controllers = run.brokers(), run.controllers()
    is_busy = found.roll.left or found.servers_change or found.move.movement is not None
    if is_busy or found.settings.plan.alter or not brokers.settled:
        is_blocked = found.move.problem is not None or found.settings.problem is not None
        return BLOCKED_SECONDS if is_blocked and not found.roll.left else BUSY_SECONDS
    settled = (
        _is_whole(run, found, status.brokers)
        and controllers.current == controllers.ready == run.context.spec.controllers.replicas
        and not found.evictions_problem
    )
    if found.zookeeper is not None:
        # Servers get a configuration from the run after the one that has read it.
        is_applied = status.ensemble is not None and status.ensemble == run.before.ensemble
        settled = settled and is_applied and not found.ensemble.has_former_claims
    return None if settled and not found.pending and found.unreachable is None else UNSETTLED_SECONDS


def _broker_counts(run: ReconcileRun, found: Findings) -> Pods:
    # A broker that did not answer about its settings may have old ones.
    outdated = {*found.settings.unknown, *found.roll.left}
    current = sum(pod.ready and pod.broker not in outdated and not pod.deleting for pod in found.pods)
    return Pods(
        wanted=run.context.spec.brokers.replicas,
        ready=sum(pod.ready for pod in found.pods),
        current=current if run.brokers().settled else 0,
    )


def _is_whole(run: ReconcileRun, found: Findings, pods: Pods) -> bool:
    return pods.ready == pods.current == pods.wanted == len(found.pods) and run.brokers().settled


def _listeners(run: ReconcileRun, found: Findings) -> tuple[ListenerStatus, ...]:
    nodes = sorted({pod.node_address for pod in found.pods if pod.node_address})
    by_broker = {pod.broker: pod.node_address or "" for pod in found.pods}
    return tuple(
        ListenerStatus(
            name=listener.name,
            type=str(listener.type),
            bootstrap=bootstrap_address(run.context, listener, run.objects, nodes),
            brokers=tuple(
                (address or PENDING).replace(NODE_IP, by_broker.get(broker, ""))
                for broker, address in enumerate(run.context.addresses.get(listener.name, ()))
            ),
        )
        for listener in run.context.spec.listeners
    )
