"""The status of a Cluster, composed from what a run found, and written with events for what is new."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER
from odradek_operator.gateways.kubernetes import Forbidden, Json, KubernetesError, metadata
from odradek_operator.reconcilers.cluster.adoption import cut_names
from odradek_operator.reconcilers.cluster.console import ConsoleFound
from odradek_operator.reconcilers.cluster.facts import set_state
from odradek_operator.reconcilers.cluster.rolling.last_step import LastStep
from odradek_operator.reconcilers.cluster.run import ReconcileRun, mark_contents_stale
from odradek_operator.reconcilers.cluster.settings.addresses import NODE_IP, PENDING, bootstrap_address
from odradek_operator.reconcilers.cluster.settings.images import version_of
from odradek_operator.reconcilers.cluster.status.conditions import (
    CLUSTERS_LEFT_OUT,
    CONSOLE_SERVES,
    DATA_LOST,
    OTHER_PATH,
    REFERENCE_MISSING,
    VOLUME_AT_RISK,
    conditions,
)
from odradek_operator.reconcilers.cluster.status.findings import Findings
from odradek_operator.reconcilers.cluster.status.problems import Problems, read_problems
from odradek_operator.reconcilers.cluster.storage.volume_claims import is_bound
from odradek_operator.reconcilers.cluster.zookeeper import ensemble
from odradek_operator.reconcilers.reconciler import Environment, conditions_of
from odradek_operator.resources.adoption import AdoptionState
from odradek_operator.resources.cluster_status import ClusterStatus, ListenerStatus, Pods, PoolStatus
from odradek_operator.resources.conditions import READY, is_ready, ready_condition

_EVENTS_MAX: Final = 3
BUSY_SECONDS: Final = 1.0
UNSETTLED_SECONDS: Final = 5.0
# What cannot be done as long as the Cluster is as it is: an event brings the next run sooner.
BLOCKED_SECONDS: Final = 30.0
# A console's other clusters, and Secrets of others, change without an event of this Cluster.
WATCHED_SECONDS: Final = 60.0


def cluster_status(run: ReconcileRun, found: Findings) -> ClusterStatus:
    """The status without its conditions."""
    context, spec, before = run.context, run.context.spec, run.before
    controllers, zookeeper = run.controllers(), found.zookeeper
    pods = _broker_counts(run, found)
    is_whole = _is_whole(run, found, pods)
    return replace(
        before,
        brokers=pods,
        pools=_pools(run, found),
        controllers=Pods(
            wanted=spec.controllers.replicas, ready=controllers.ready, current=controllers.current
        ),
        zookeeper=None
        if zookeeper is None or spec.zookeeper.servers is None
        else Pods(wanted=spec.zookeeper.servers.size, ready=zookeeper.ready, current=zookeeper.current),
        ensemble=found.ensemble.ensemble or before.ensemble,
        bootstrap=context.bootstrap,
        zookeeper_connect=context.zookeeper_connect if _admits_clients(run) else None,
        console=None if found.console is None else found.console.address,
        listeners=_listeners(run, found),
        image=context.image if is_whole else before.image,
        version=version_of(context.image) if is_whole else before.version,
        # Once known it stays: brokers that have another id are a problem, which a condition reports.
        cluster_id=before.cluster_id or found.settings.cluster_id,
        movement=found.move.movement,
        balance=found.balance.status or before.balance,
        restart=context.restart or None,
        live_settings=found.settings.plan.live or before.live_settings,
        adoption=found.adoption.state or before.adoption,
        unclaimed_users=cut_names(found.adoption.users),
        unclaimed_topics=cut_names(found.adoption.topics),
        bound_volumes=tuple(
            component
            for component in (BROKER, ZOOKEEPER)
            if any(is_bound(claim) for claim in run.claims(context.object_name(component)))
        ),
    )


def _admits_clients(run: ReconcileRun) -> bool:
    """Whether anyone but our own pods may be a client of ZooKeeper now."""
    servers = run.context.spec.zookeeper.servers
    return servers is not None and bool(servers.clients) and run.context.zookeeper_access.admits_clients


def again_seconds(run: ReconcileRun, found: Findings, status: ClusterStatus) -> float | None:
    """Return the seconds until the next run without an event, or None once all is as wanted."""
    # No event shows that a kind is there now, or that a gateway has accepted a route.
    of_way_in = BLOCKED_SECONDS if found.way_in_problem else None
    # No event shows what a pod that does not come up says, or that a Secret is there.
    of_console = None if found.console is None else _console_seconds(found.console)
    spans = (
        _seconds_until_settled(run, found, status),
        found.balance.again_seconds,
        of_way_in,
        of_console,
    )
    return min((span for span in spans if span is not None), default=None)


def _console_seconds(console: ConsoleFound) -> float | None:
    if not console.is_settled:
        return BLOCKED_SECONDS
    return WATCHED_SECONDS if console.watches_others else None


def _seconds_until_settled(run: ReconcileRun, found: Findings, status: ClusterStatus) -> float | None:
    assert status.brokers is not None
    brokers, controllers = run.brokers(), run.controllers()
    is_busy = found.roll.left or found.servers_change or found.move.movement is not None
    if is_busy or found.settings.plan.alter or not brokers.settled:
        is_blocked = found.move.problem is not None or found.settings.problem is not None
        if found.missing:
            return UNSETTLED_SECONDS  # No event shows that a Secret is there.
        return BLOCKED_SECONDS if is_blocked and not found.roll.left else BUSY_SECONDS
    if found.adoption.is_shut:
        return BUSY_SECONDS
    settled = (
        _is_whole(run, found, status.brokers)
        and found.adoption.state in (None, AdoptionState.DONE)
        and found.adoption.owed is None
        and controllers.current == controllers.ready == run.context.spec.controllers.replicas
        and not found.evictions_problem
        and not found.at_risk
        and not found.missing
        and found.last_step is None
        and found.pending_set is None
    )
    if found.zookeeper is not None:
        # Servers get a configuration from the run after the one that has read it.
        is_applied = status.ensemble is not None and status.ensemble == run.before.ensemble
        settled = settled and is_applied and not found.ensemble.has_former_claims and found.access.is_settled
    return None if settled and not found.pending and found.unreachable is None else UNSETTLED_SECONDS


def _broker_counts(run: ReconcileRun, found: Findings) -> Pods:
    # A broker that did not answer about its settings may have old ones.
    outdated = {*found.settings.unknown, *found.roll.left}
    current = sum(pod.ready and pod.broker not in outdated and not pod.deleting for pod in found.pods)
    return Pods(
        wanted=run.context.spec.brokers.total,
        ready=sum(pod.ready for pod in found.pods),
        current=current if run.brokers().settled else 0,
    )


def _pools(run: ReconcileRun, found: Findings) -> tuple[PoolStatus, ...]:
    """The brokers by pool; empty where there are no pools."""
    context = run.context
    if not context.pools:
        return ()
    of_pools = [
        (pool.name, pool.suffix, 0 if pool.wanted is None else pool.wanted.replicas) for pool in context.pools
    ]
    rows = []
    for name, suffix, wanted in (("", BROKER, context.spec.brokers.replicas), *of_pools):
        pods = [pod for pod in found.pods if pod.name == f"{context.object_name(suffix)}-{pod.broker}"]
        rows.append(
            PoolStatus(
                name=name,
                wanted=wanted,
                ready=sum(pod.ready for pod in pods),
                current=sum(pod.ready and pod.current for pod in pods),
                brokers=tuple(pod.broker for pod in pods),
            )
        )
    return tuple(rows)


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
                for broker, address in sorted(run.context.addresses.get(listener.name, {}).items())
            ),
        )
        for listener in run.context.spec.listeners
    )


async def report(run: ReconcileRun, found: Findings) -> float | None:
    """Write the status and put events; the answer is when to look again without an event."""
    environment = run.environment
    problems = await read_problems(environment.kubernetes, run.context, run.objects, environment.now())
    found = _with_problems(run, found, problems)
    known = conditions_of(run.body)
    if found.data_problem and not any(one.reason == DATA_LOST for one in known):
        await run.report_event(DATA_LOST, found.data_problem, warning=True)
    if found.path_problem and not any(one.message == found.path_problem for one in known):
        await run.report_event(OTHER_PATH, found.path_problem, warning=True)
    if (refused := run.refused_image) and not any(one.message.startswith(refused.message) for one in known):
        await run.report_event(refused.reason, refused.message, warning=True)
    told = next((one.message for one in known if one.reason == VOLUME_AT_RISK), "")
    for warned in found.at_risk:
        if warned.claim not in told:
            await run.report_event("VolumeAtRisk", warned.message, warning=True)
    if found.missing and not any(one.message == found.missing for one in known):
        await run.report_event(REFERENCE_MISSING, found.missing, warning=True)
    await _report_console(run, found.console)
    status, stated = cluster_status(run, found), conditions(run, found)
    await environment.write_status(run.body, status, stated)
    await _report_problems(run, problems)
    serves_again = is_ready(stated) and not is_ready(known)
    # A newer spec may allow ConsumerGroups to scale other workloads.
    is_changed = run.before.observed_generation not in (None, metadata(run.body).get("generation"))
    # Users' Secrets have it too.
    is_changed = is_changed or status.zookeeper_connect != run.before.zookeeper_connect
    if serves_again or is_changed:
        await mark_contents_stale(run.environment, run.key)
    return again_seconds(run, found, status)


async def _report_console(run: ReconcileRun, console: ConsoleFound | None) -> None:
    """An event for a problem of the console whose reason is new, and for clusters that are newly left out."""
    if console is None:
        return
    known = next((one for one in conditions_of(run.body) if one.type == CONSOLE_SERVES), None)
    told = "" if known is None else known.message
    if console.needs_attention and console.problem is not None:
        if known is None or console.problem.reason != known.reason:
            message = f"the console is not as it is wanted: {console.problem.message}"
            await run.report_event(f"Console{console.problem.reason}", message, warning=True)
    elif new := [one for one in console.left_out if one not in told]:
        message = f"the console does not show {'; '.join(new)}"
        await run.report_event(f"Console{CLUSTERS_LEFT_OUT}", message, warning=True)


async def report_unready(
    environment: Environment,
    body: Json,
    before: ClusterStatus,
    reason: str,
    message: str,
    *,
    holds: bool | None = False,
) -> None:
    """Write a status that leaves all but Ready as it is; an event where the reason or the message is new."""
    others = [one for one in conditions_of(body) if one.type != READY]
    known = next((one for one in conditions_of(body) if one.type == READY), None)
    await environment.write_status(body, before, [ready_condition(holds, reason, message), *others])
    if known is None or (known.reason, known.message) != (reason, message):
        await environment.report_event(body, reason, message, warning=True)


async def report_refusal(run: ReconcileRun, refusal: KubernetesError) -> None:
    """Report that Kubernetes does not allow an object of the Cluster."""
    if isinstance(refusal, Forbidden):
        reason, what_to_do = (
            "Forbidden",
            "give the operator's role this right, or lift the quota that forbids it",
        )
    else:
        reason, what_to_do = "Refused", "correct what this Cluster asks for"
    message = f"Kubernetes refuses what belongs to this Cluster; {what_to_do}: {refusal}"
    await report_unready(run.environment, run.body, run.before, reason, message)


def _find_pending_set(run: ReconcileRun) -> str | None:
    """A StatefulSet whose newest form Kubernetes has not taken up yet."""
    servers = run.zookeeper()
    if servers is not None and servers.there and not servers.settled:
        return run.context.object_name(ZOOKEEPER)
    for body in run.broker_sets():
        if not set_state(body).settled:
            return str(metadata(body)["name"])
    return None


def _with_problem(step: LastStep | None, problems: Problems) -> LastStep | None:
    return None if step is None else replace(step, problem=problems.of_pods.get(step.pod, step.problem))


def _with_problems(run: ReconcileRun, found: Findings, problems: Problems) -> Findings:
    ensemble_before = run.before.ensemble
    pods = tuple(replace(pod, problem=problems.of_pods.get(pod.name, pod.problem)) for pod in found.pods)
    return replace(
        found,
        pods=pods,
        pending_set=_find_pending_set(run),
        last_step=_with_problem(found.last_step, problems),
        pod_problems={
            component: problem
            for component in (BROKER, CONTROLLER, ZOOKEEPER)
            if (problem := problems.of(component, f"{run.context.object_name(component)}-")) is not None
        },
        path_problem=ensemble.path_problem(pods, run.before.cluster_id, run.context.zookeeper_path),
        data_problem=ensemble.data_problem(
            pods,
            run.before.cluster_id,
            found.settings.cluster_id,
            run.server_pods(),
            () if ensemble_before is None else ensemble_before.voters,
        ),
    )


async def _report_problems(run: ReconcileRun, problems: Problems) -> None:
    """An event for what keeps pods from coming up, once for each that is new."""
    known = next((one.message for one in conditions_of(run.body) if one.type == READY), "")
    found = [*problems.not_made.values(), *dict.fromkeys(problems.of_pods.values())]
    for problem in found[:_EVENTS_MAX]:
        # Times, counts and the numbers of pods change in what is the same problem.
        if _without_numbers(problem) not in _without_numbers(known):
            await run.report_event("PodsNotReady", problem, warning=True)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "", text)
