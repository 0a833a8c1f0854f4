"""The rounds of ConsumerGroups. All are observed together, and each then takes its rounds by itself.

Most groups need no step. One that does is observed again after each.

A group's consumers are run by a Deployment or StatefulSet, whose number of pods is read and set here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from odradek.client.client import Client
from odradek.foundation.errors import NonEmptyGroup, OdradekError
from odradek.foundation.words import count
from odradek_operator.desired.names import MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.gateways.group_values import DeleteGroup, ExpectedGroup, GroupStep
from odradek_operator.gateways.groups import BrokerGroups
from odradek_operator.gateways.kubernetes import (
    APIS,
    CONSUMER_GROUPS,
    Forbidden,
    Json,
    Kubernetes,
    Refused,
    metadata,
)
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.broker_failures import failure_of, is_unreachable
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    DesiredGroup,
    GroupDecision,
    Note,
    Resolve,
    ScaleWorkload,
    WorkloadSeen,
)
from odradek_operator.reconcilers.consumer_group.settings import expect_group
from odradek_operator.reconcilers.decisions import Reachability, Work
from odradek_operator.reconcilers.declared import DeclaredThing
from odradek_operator.reconcilers.reconciler import conditions_of, status_of
from odradek_operator.reconcilers.rounds import ClusterAccess, ReconciledKind, Rounds
from odradek_operator.resources.consumer_group import ConsumerGroupSpec, ConsumerGroupStatus
from odradek_operator.resources.workloads import ScalableWorkload, scalable_workloads


@dataclass(slots=True)
class GroupWork(Work[DesiredGroup, ActualGroupState, GroupDecision]):
    """A ConsumerGroup on its way through the rounds, and what its Cluster gives it."""

    groups: BrokerGroups | None = None
    scalable: tuple[ScalableWorkload, ...] = ()


def group_kind(record_times: RecordTimes) -> ReconciledKind[GroupWork]:
    """ConsumerGroups. `record_times` asks brokers for the times of records, from which the lag in seconds follows."""
    return ReconciledKind(
        api=CONSUMER_GROUPS,
        status=ConsumerGroupStatus,
        rounds_max=16,
        read=read_group,
        get_name=lambda work: work.desired.group_id,
        get_id=group_id,
        remove=partial(remove_groups, record_times),
        decide=decide,
        run_rounds=partial(run_groups, record_times),
        take_step=take_group_step,
    )


def group_id(work: GroupWork) -> str | None:
    is_own = status_of(work.body, ConsumerGroupStatus).owner_uid == work.desired.uid
    return "" if is_own else None


def read_group(body: Json, now: datetime) -> GroupWork:
    desired = DesiredGroup.read(body, spec=ConsumerGroupSpec, status=ConsumerGroupStatus)
    return GroupWork(body, desired, ActualGroupState(now=now), GroupDecision())


async def run_groups(
    record_times: RecordTimes,
    rounds: Rounds[GroupWork],
    works: Sequence[GroupWork],
    client: Client,
    cluster: Json,
) -> None:
    https = rounds.clusters.brokers.https_context(rounds.clusters.bootstrap(cluster))
    groups, scalable = BrokerGroups(client, record_times, https), scalable_workloads(cluster)
    for work in works:
        work.groups, work.scalable = groups, scalable
    await _observe(rounds, works, groups)
    await rounds.run_each(works, partial(_run_one, rounds))


async def remove_groups(
    record_times: RecordTimes,
    client: Client,
    entries: Sequence[DeclaredThing],
    *,
    cluster: Json,
    clusters: ClusterAccess,
) -> Mapping[str, str]:
    """Delete groups whose resources are gone, with their offsets, once they have no members."""
    groups = BrokerGroups(client, record_times, clusters.brokers.https_context(clusters.bootstrap(cluster)))
    seen, failures = await groups.describe({entry.thing: ExpectedGroup() for entry in entries})
    problems: dict[str, str] = {}
    for entry in entries:
        found = seen.groups.get(entry.thing)
        if entry.thing in failures:
            problems[entry.uid] = str(failures[entry.thing])
        elif found is None or found.state is None or found.is_in_zookeeper:
            continue  # Brokers have nothing of it, or nothing that they may change.
        elif found.members:
            problems[entry.uid] = f"it has {count(len(found.members), 'member')}; stop its consumers"
        else:
            try:
                await groups.carry_out(DeleteGroup(entry.thing))
            except OdradekError as failure:
                problems[entry.uid] = str(failure)
    return problems


async def _run_one(rounds: Rounds[GroupWork], work: GroupWork) -> None:
    work.actual = replace(work.actual, now=rounds.environment.now())
    await _observe_workload(rounds, work)
    await rounds.take_rounds(work)


# --- observing --------------------------------------------------------------------------------------------------------


async def _observe(rounds: Rounds[GroupWork], works: Sequence[GroupWork], groups: BrokerGroups) -> None:
    seen, failures = await groups.describe(
        {work.desired.group_id: expect_group(work.desired) for work in works}
    )
    for work in works:
        refused = failures.get(work.desired.group_id)
        if refused is not None and is_unreachable(refused):
            # Its coordinator moves or starts; the next run asks again.
            work.actual = replace(
                work.actual,
                reachability=Reachability.UNREACHABLE,
                problem=f"the group's coordinator does not answer: {refused}; it is tried again",
            )
            continue
        work.actual = replace(
            work.actual,
            now=rounds.environment.now(),
            reachability=Reachability.REACHED,
            seen=seen,
            group=seen.groups.get(work.desired.group_id),
            failure=None if refused is None else failure_of(refused),
        )


async def _observe_workload(rounds: Rounds[GroupWork], work: GroupWork) -> None:
    kubernetes = rounds.environment.kubernetes
    workload = await observe_workload(kubernetes, rounds.namespace, work.desired, work.scalable)
    work.actual = replace(work.actual, workload=workload)


# --- steps ------------------------------------------------------------------------------------------------------------


async def take_group_step(
    rounds: Rounds[GroupWork], work: GroupWork, step: Note | Resolve | ScaleWorkload | GroupStep
) -> bool:
    match step:
        case Note(status):
            noted = await rounds.environment.write_status(work.body, status, conditions_of(work.body))
            work.body = noted or work.body
            work.desired = replace(work.desired, status=status)
            work.actual = replace(work.actual, resolved=None)
            return True
        case ScaleWorkload():
            return await _scale(rounds, work, step)
        case _:
            return await _change_on_brokers(rounds, work, step)


async def _scale(rounds: Rounds[GroupWork], work: GroupWork, step: ScaleWorkload) -> bool:
    try:
        await scale_workload(rounds.environment.kubernetes, rounds.namespace, step)
    except (Refused, Forbidden) as refusal:
        seen = work.actual.workload or WorkloadSeen()
        work.actual = replace(work.actual, workload=replace(seen, refusal=str(refusal)))
        return False
    message = f"{step.kind} {step.name} is set to {step.replicas} replicas"
    await rounds.environment.report_event(work.body, "WorkloadScaled", message)
    await _observe_workload(rounds, work)
    return True


async def _change_on_brokers(rounds: Rounds[GroupWork], work: GroupWork, step: Resolve | GroupStep) -> bool:
    assert work.groups is not None, f"{step} without a cluster"
    is_taken = True
    try:
        if isinstance(step, Resolve):
            resolved = await work.groups.resolve(step.timestamps_ms)
            work.actual = replace(work.actual, resolved=resolved, now=rounds.environment.now())
            return True
        try:
            await work.groups.carry_out(step)
        except NonEmptyGroup:
            is_taken = False  # A member has joined since: the steps that follow are void.
        work.actual = replace(work.actual, resolved=None)
        await _observe(rounds, [work], work.groups)
    except OdradekError as failure:
        # It stays with this group: others are in the middle of their rounds.
        if is_unreachable(failure):
            problem = f"the brokers do not answer: {failure}; it is tried again"
            work.actual = replace(work.actual, reachability=Reachability.UNREACHABLE, problem=problem)
        else:
            work.actual = replace(work.actual, failure=failure_of(failure))
        return False
    return is_taken


async def observe_workload(
    kubernetes: Kubernetes, namespace: str, desired: DesiredGroup, scalable: Sequence[ScalableWorkload]
) -> WorkloadSeen | None:
    """The workload that the resource names; None where it names none. `scalable` are those that the Cluster allows.

    Raises KubernetesError, but not Forbidden: that is a part of what was seen.
    """
    named = desired.spec.workload
    if named is None or desired.is_deleted:
        return None
    if not any(one.covers(named) for one in scalable):
        not_allowed = (
            f"the Cluster {desired.spec.cluster} does not let ConsumerGroups scale {named}; add "
            f"{{kind: {named.kind}, name: {named.name}}} to spec.scalableWorkloads of the Cluster, or take "
            "workload away"
        )
        return WorkloadSeen(not_allowed=not_allowed)
    try:
        body = await kubernetes.get(APIS[str(named.kind)], namespace, named.name)
    except Forbidden as refusal:
        return WorkloadSeen(refusal=str(refusal))
    if body is None:
        return WorkloadSeen()
    if (metadata(body).get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGED_BY:
        not_allowed = f"{named} is a part of a Cluster, which alone says how many there are; correct workload"
        return WorkloadSeen(not_allowed=not_allowed)
    spec = body.get("spec") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return WorkloadSeen(
        # A Deployment that names no number has one.
        replicas=int(spec.get("replicas", 1)),
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())) or None,
    )


async def scale_workload(kubernetes: Kubernetes, namespace: str, step: ScaleWorkload) -> None:
    """Set the number of replicas. Raises KubernetesError."""
    manifest = {
        "apiVersion": APIS[step.kind].group_version,
        "kind": step.kind,
        "metadata": {"name": step.name, "namespace": namespace},
        "spec": {"replicas": step.replicas},
    }
    await kubernetes.apply(manifest)
