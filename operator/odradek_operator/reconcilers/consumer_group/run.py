"""One pass over ConsumerGroups of a namespace: all are looked at together, and each is then seen to by itself.

Most have nothing to be done about them. One that has takes its steps, and is looked at again after each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from odradek.client.client import Client
from odradek.foundation.errors import NonEmptyGroup, OdradekError
from odradek_operator.desired.names import MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.groups import BrokerGroups
from odradek_operator.gateways.kubernetes import (
    APIS,
    CONSUMER_GROUPS,
    Forbidden,
    Json,
    KubernetesError,
    NotFound,
    Refused,
    metadata,
)
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.batches import Outcome, Outcomes
from odradek_operator.reconcilers.broker_failures import failure_of, is_unreachable
from odradek_operator.reconcilers.claims import Claims
from odradek_operator.reconcilers.cluster_access import ClusterAccess, for_each_cluster
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import (
    Action,
    Actual,
    Desired,
    Note,
    Resolve,
    ScaleWorkload,
    WorkloadSeen,
)
from odradek_operator.reconcilers.decisions import AddFinalizer, Reachability, RemoveFinalizer
from odradek_operator.reconcilers.reconciler import (
    Environment,
    add_finalizer,
    key_of,
    known_conditions,
    remove_finalizer,
)
from odradek_operator.reconcilers.reporting import leave, leave_invalid, tell
from odradek_operator.resources.consumer_group import ConsumerGroupSpec, ConsumerGroupStatus
from odradek_operator.resources.structure import InvalidResource
from odradek_operator.resources.workloads import ScalableWorkload, scalable_workloads

logger = logging.getLogger(__name__)

ROUNDS_MAX: Final = 16
GROUPS_TOGETHER_MAX: Final = 16


@dataclass(slots=True)
class _Work:
    """A ConsumerGroup on its way through the rounds."""

    key: Key
    body: Json
    desired: Desired
    actual: Actual = field(default_factory=lambda: Actual(now=datetime.now(UTC)))
    scalable: tuple[ScalableWorkload, ...] = ()


class GroupsRun:
    """A pass; used once. `bodies` are all ConsumerGroups of the namespace."""

    def __init__(
        self,
        environment: Environment,
        namespace: str,
        bodies: Sequence[Json],
        *,
        brokers: BrokerClients,
        record_times: RecordTimes,
        bootstrap: Bootstrap,
    ) -> None:
        self._environment = environment
        self._namespace = namespace
        self._clusters = ClusterAccess(environment, namespace, "ConsumerGroup", brokers, bootstrap)
        self._record_times = record_times
        self._claims = Claims(bodies, field="groupId")
        self._places = asyncio.Semaphore(GROUPS_TOGETHER_MAX)
        self._outcomes: list[Outcome] = []
        self._failures: dict[Key, Exception] = {}

    async def reconcile(self, due: Sequence[Json]) -> Outcomes:
        """See to these groups."""
        works: dict[str, list[_Work]] = {}
        for body in due:
            try:
                desired = Desired.read(
                    body, spec=ConsumerGroupSpec, status=ConsumerGroupStatus, now=self._environment.now()
                )
            except InvalidResource as problem:
                try:
                    await self._say_invalid(body, problem)
                except KubernetesError as failure:
                    self._failures[key_of(body)] = failure
                continue
            works.setdefault(desired.spec.cluster, []).append(_Work(key_of(body), body, desired))
        await for_each_cluster(works, self._on_cluster)
        return Outcomes(self._outcomes, self._failures)

    async def _on_cluster(self, cluster: str, works: Sequence[_Work]) -> None:
        async def with_brokers(client: Client, body: Json) -> None:
            scalable = scalable_workloads(body)
            for work in works:
                work.scalable = scalable
            groups = BrokerGroups(client, self._record_times)
            await self._look(works, groups)
            await self._each(works, groups)

        absence = await self._clusters.ask(cluster, with_brokers)
        if absence is not None:
            ended = {outcome.key for outcome in self._outcomes} | self._failures.keys()
            left = [work for work in works if work.key not in ended]
            await self._each(left, None, reachability=absence.reachability, problem=absence.problem)

    async def _look(self, works: Sequence[_Work], groups: BrokerGroups) -> None:
        seen, failures = await groups.look({work.desired.group_id: _topics(work.desired) for work in works})
        for work in works:
            refused = failures.get(work.desired.group_id)
            if refused is not None and is_unreachable(refused):
                # Its coordinator moves or starts: that is for the next pass.
                work.actual = replace(
                    work.actual,
                    reachability=Reachability.UNREACHABLE,
                    problem=f"the group's coordinator does not answer: {refused}; it is tried again",
                )
                continue
            work.actual = replace(
                work.actual,
                now=self._environment.now(),
                reachability=Reachability.REACHED,
                seen=seen,
                group=seen.groups.get(work.desired.group_id),
                failure=None if refused is None else failure_of(refused),
            )

    # --- one group ----------------------------------------------------------------------------------------------------

    async def _each(self, works: Iterable[_Work], groups: BrokerGroups | None, **known: Any) -> None:
        async def one(work: _Work) -> None:
            async with self._places:
                work.actual = replace(
                    work.actual,
                    now=self._environment.now(),
                    older=self._claims.older(
                        work.desired.uid, work.desired.spec.cluster, work.desired.group_id
                    ),
                    sharers=self._claims.sharers(
                        work.desired.uid, work.desired.spec.cluster, work.desired.group_id
                    ),
                    **known,
                )
                try:
                    await self._rounds(work, groups)
                except NotFound:
                    return  # it is gone, which is for another pass to see
                except KubernetesError as failure:
                    self._failures[work.key] = failure

        await asyncio.gather(*(one(work) for work in works))

    async def _rounds(self, work: _Work, groups: BrokerGroups | None) -> None:
        await self._see_workload(work)
        for _ in range(ROUNDS_MAX):
            decision = decide(work.desired, work.actual)
            if not decision.actions:
                self._outcomes.append(await leave(self._environment, work.body, work.desired, decision))
                return
            for action in decision.actions:
                if not await self._act(work, action, groups):
                    break
            else:
                await tell(self._environment, work.body, decision.events)
            if work.desired.is_deleted and not work.desired.has_finalizer:
                return
        self._failures[work.key] = RuntimeError(f"{work.key} has not come to rest in {ROUNDS_MAX} rounds")

    async def _act(self, work: _Work, action: Action, groups: BrokerGroups | None) -> bool:
        """Take one step; False when it was refused, and those after it are to be left out."""
        match action:
            case AddFinalizer():
                work.body = await add_finalizer(self._environment.kubernetes, CONSUMER_GROUPS, work.body)
                work.desired = replace(work.desired, has_finalizer=True)
            case RemoveFinalizer():
                await remove_finalizer(self._environment.kubernetes, CONSUMER_GROUPS, work.body)
                work.desired = replace(work.desired, has_finalizer=False)
                found = await self._environment.kubernetes.get(
                    CONSUMER_GROUPS, self._namespace, work.key.name
                )
                work.body = found or work.body
            case Note(status):
                noted = await self._environment.write_status(work.body, status, known_conditions(work.body))
                work.body = noted or work.body
                work.desired = replace(work.desired, status=status)
                work.actual = replace(work.actual, resolved=None)
            case ScaleWorkload(kind, name, replicas):
                try:
                    await self._scale(kind, name, replicas)
                except (Refused, Forbidden) as refusal:
                    seen = work.actual.workload or WorkloadSeen()
                    work.actual = replace(work.actual, workload=replace(seen, refusal=str(refusal)))
                    return False
                message = f"{kind} {name} is set to {replicas} replicas"
                await self._environment.report_event(work.body, "WorkloadScaled", message)
                await self._see_workload(work)
            case _:
                assert groups is not None, f"{action} without a cluster"
                return await self._on_brokers(work, action, groups)
        return True

    async def _on_brokers(self, work: _Work, action: Action, groups: BrokerGroups) -> bool:
        is_taken = True
        try:
            if isinstance(action, Resolve):
                resolved = await groups.resolve(action.timestamps_ms)
                work.actual = replace(work.actual, resolved=resolved, now=self._environment.now())
                return True
            assert not isinstance(action, Note | ScaleWorkload | AddFinalizer | RemoveFinalizer)
            try:
                await groups.carry_out(action)
            except NonEmptyGroup:
                is_taken = False  # somebody has joined meanwhile, and what follows is another question
            work.actual = replace(work.actual, resolved=None)
            await self._look([work], groups)
        except OdradekError as failure:
            # It stays with this group: others are in the middle of theirs.
            if is_unreachable(failure):
                problem = f"the brokers do not answer: {failure}; it is tried again"
                work.actual = replace(work.actual, reachability=Reachability.UNREACHABLE, problem=problem)
            else:
                work.actual = replace(work.actual, failure=failure_of(failure))
            return False
        return is_taken

    async def _say_invalid(self, body: Json, problem: InvalidResource) -> None:
        outcome = await leave_invalid(
            self._environment, CONSUMER_GROUPS, body, problem, status=ConsumerGroupStatus
        )
        if outcome is not None:
            self._outcomes.append(outcome)

    # --- what runs the consumers --------------------------------------------------------------------------------------

    async def _see_workload(self, work: _Work) -> None:
        named = work.desired.spec.workload
        if named is None or work.desired.is_deleted:
            return
        if not any(one.covers(named) for one in work.scalable):
            not_allowed = (
                f"the Cluster {work.desired.spec.cluster} does not let ConsumerGroups scale {named}; add "
                f"{{kind: {named.kind}, name: {named.name}}} to spec.scalableWorkloads of the Cluster, or take "
                "workload away"
            )
            work.actual = replace(work.actual, workload=WorkloadSeen(not_allowed=not_allowed))
            return
        try:
            body = await self._environment.kubernetes.get(APIS[str(named.kind)], self._namespace, named.name)
        except Forbidden as refusal:
            work.actual = replace(work.actual, workload=WorkloadSeen(refusal=str(refusal)))
            return
        if body is None:
            work.actual = replace(work.actual, workload=WorkloadSeen())
            return
        if (metadata(body).get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGED_BY:
            not_allowed = (
                f"{named} is a part of a Cluster, which alone says how many there are; correct workload"
            )
            work.actual = replace(work.actual, workload=WorkloadSeen(not_allowed=not_allowed))
            return
        spec = body.get("spec") or {}
        labels = (spec.get("selector") or {}).get("matchLabels") or {}
        work.actual = replace(
            work.actual,
            workload=WorkloadSeen(
                # A Deployment that names no number has one.
                replicas=int(spec.get("replicas", 1)),
                selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())) or None,
            ),
        )

    async def _scale(self, kind: str, name: str, replicas: int) -> None:
        api = APIS[kind]
        manifest = {
            "apiVersion": api.group_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": {"replicas": replicas},
        }
        await self._environment.kubernetes.apply(manifest)


def _topics(desired: Desired) -> tuple[str, ...]:
    """All topics that a decision may be about."""
    reset = desired.spec.reset
    return tuple(dict.fromkeys([*desired.spec.topics, *(reset.topics if reset is not None else ())]))
