"""Writes what a run found to the Cluster: its status, and events for what is new."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER
from odradek_operator.gateways.kubernetes import Forbidden, Json, KubernetesError, metadata
from odradek_operator.reconcilers.cluster import ensemble
from odradek_operator.reconcilers.cluster.conditions import DATA_LOST, conditions
from odradek_operator.reconcilers.cluster.contents import mark_contents_stale
from odradek_operator.reconcilers.cluster.findings import Findings
from odradek_operator.reconcilers.cluster.problems import Problems, read_problems
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.status import again_seconds, cluster_status
from odradek_operator.reconcilers.reconciler import Environment, conditions_of
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.conditions import READY, is_ready, ready_condition

_EVENTS_MAX: Final = 3


async def report(run: ReconcileRun, found: Findings) -> float | None:
    """Write the status and put events; the answer is when to look again without an event."""
    environment = run.environment
    problems = await read_problems(environment.kubernetes, run.context, run.objects, environment.now())
    found = _with_problems(run, found, problems)
    known = conditions_of(run.body)
    if found.data_problem and not any(one.reason == DATA_LOST for one in known):
        await run.report_event(DATA_LOST, found.data_problem, warning=True)
    if (refused := run.refused_image) and not any(one.message.startswith(refused.message) for one in known):
        await run.report_event(refused.reason, refused.message, warning=True)
    status, stated = cluster_status(run, found), conditions(run, found)
    await environment.write_status(run.body, status, stated)
    await _report_problems(run, problems)
    serves_again = is_ready(stated) and not is_ready(known)
    # A newer spec may allow ConsumerGroups to scale other workloads.
    is_changed = run.before.observed_generation not in (None, metadata(run.body).get("generation"))
    if serves_again or is_changed:
        await mark_contents_stale(run)
    return again_seconds(run, found, status)


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


def _with_problems(run: ReconcileRun, found: Findings, problems: Problems) -> Findings:
    ensemble_before = run.before.ensemble
    pods = tuple(replace(pod, problem=problems.of_pods.get(pod.name, pod.problem)) for pod in found.pods)
    return replace(
        found,
        pods=pods,
        pod_problems={
            component: problem
            for component in (BROKER, CONTROLLER, ZOOKEEPER)
            if (problem := problems.of(component, f"{run.context.object_name(component)}-")) is not None
        },
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
