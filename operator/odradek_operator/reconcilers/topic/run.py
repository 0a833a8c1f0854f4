"""One pass over Topics of a namespace: read, decide, act on all clusters together, write what is to be said.

Rounds: as long as something was done, what was touched is looked at again and decided anew. An ordinary Topic takes
two, the second of which finds it as wanted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import TOPICS, Json, KubernetesError, NotFound
from odradek_operator.gateways.topic_values import ActualTopic, Create, OnBrokers
from odradek_operator.gateways.topics import BrokerTopics, Seen
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.batches import Outcome, Outcomes
from odradek_operator.reconcilers.broker_failures import failure_of
from odradek_operator.reconcilers.claims import Claims
from odradek_operator.reconcilers.cluster_access import ClusterAccess, for_each_cluster
from odradek_operator.reconcilers.decisions import AddFinalizer, RemoveFinalizer
from odradek_operator.reconcilers.reconciler import (
    Environment,
    add_finalizer,
    key_of,
    remove_finalizer,
)
from odradek_operator.reconcilers.reporting import leave, leave_invalid, tell
from odradek_operator.reconcilers.topic.decide import decide
from odradek_operator.reconcilers.topic.facts import Actual, Decision, Desired, NoteCreating
from odradek_operator.resources.conditions import ready
from odradek_operator.resources.structure import InvalidResource
from odradek_operator.resources.topic import TopicSpec, TopicStatus

logger = logging.getLogger(__name__)
T = TypeVar("T")

ROUNDS_MAX: Final = 6
# Writes to the API server that are under way for a pass; the gateway has a bound for the process besides.
WRITES_TOGETHER_MAX: Final = 16


@dataclass(slots=True)
class _Work:
    """A Topic on its way through the rounds."""

    key: Key
    body: Json
    desired: Desired
    actual: Actual = field(default_factory=Actual)
    decision: Decision = field(default_factory=Decision)
    is_open: bool = True
    has_changed: bool = False


class StaleRead(Exception):
    """A look showed less than what had been done before it; the next one will show more."""

    is_expected = True


class TopicsRun:
    """A pass; used once. `bodies` are all Topics of the namespace."""

    def __init__(
        self,
        environment: Environment,
        namespace: str,
        bodies: Sequence[Json],
        *,
        brokers: BrokerClients,
        bootstrap: Bootstrap,
    ) -> None:
        self._environment = environment
        self._namespace = namespace
        self._clusters = ClusterAccess(environment, namespace, "Topic", brokers, bootstrap)
        self._claims = Claims(bodies, field="name")
        self._writes = asyncio.Semaphore(WRITES_TOGETHER_MAX)
        self._failures: dict[Key, Exception] = {}
        self._outcomes: list[Outcome] = []

    async def reconcile(self, due: Sequence[Json]) -> Outcomes:
        """See to these Topics."""
        works: dict[str, list[_Work]] = {}
        invalid: list[tuple[Json, InvalidResource]] = []
        for body in due:
            try:
                desired = Desired.read(body, spec=TopicSpec, status=TopicStatus, now=self._environment.now())
            except InvalidResource as problem:
                invalid.append((body, problem))
                continue
            works.setdefault(desired.spec.cluster, []).append(_Work(key_of(body), body, desired))
        await self._each(invalid, self._say_invalid)
        await for_each_cluster(works, self._on_cluster)
        return Outcomes(self._outcomes, self._failures)

    # --- one cluster --------------------------------------------------------------------------------------------------

    async def _on_cluster(self, cluster: str, works: Sequence[_Work]) -> None:
        async def with_brokers(client: Client, _: Json) -> None:
            await self._rounds(works, BrokerTopics(client))

        absence = await self._clusters.ask(cluster, with_brokers)
        if absence is not None:
            left = [work for work in works if work.is_open]
            await self._without_cluster(
                left, Actual(reachability=absence.reachability, problem=absence.problem)
            )

    async def _without_cluster(self, works: Sequence[_Work], actual: Actual) -> None:
        for work in works:
            work.actual = replace(actual, older=self._claims.older(*_thing(work.desired)))
        for _ in range(ROUNDS_MAX):
            for work in works:
                work.decision = decide(work.desired, work.actual) if work.is_open else work.decision
            await self._each([work for work in works if work.is_open], self._before_brokers)
            await self._each([work for work in works if work.is_open], self._after_brokers)

    async def _rounds(self, works: Sequence[_Work], topics: BrokerTopics) -> None:
        touched = list(works)
        for number in range(ROUNDS_MAX):
            seen = await topics.look(work.desired.topic for work in touched)
            for work in touched:
                self._take_in(work, seen)
            await self._decide(touched, topics, is_first=number == 0)
            working = [work for work in works if work.is_open]
            await self._each(working, self._before_brokers)
            touched = [work for work in working if work.is_open and work.decision.touches_brokers]
            await self._on_brokers(touched, topics)
            await self._each([work for work in working if work.is_open], self._after_brokers)
            touched = [work for work in works if work.is_open]
            if not touched:
                return
        for work in touched:
            self._fail(work, RuntimeError(f"{work.key} has not come to rest in {ROUNDS_MAX} rounds"))

    def _take_in(self, work: _Work, seen: Seen) -> None:
        found = seen.topics.get(work.desired.topic)
        failure = work.actual.failure
        if isinstance(found, OdradekError):
            failure = failure_of(found)
        work.actual = replace(
            work.actual,
            topic=found if isinstance(found, ActualTopic) else None,
            brokers=seen.brokers,
            older=self._claims.older(*_thing(work.desired)),
            sharers=self._claims.sharers(*_thing(work.desired)),
            failure=failure,
        )

    async def _decide(self, works: Sequence[_Work], topics: BrokerTopics, *, is_first: bool) -> None:
        for work in works:
            work.decision = decide(work.desired, work.actual)
        # Only what is about to be shown is measured.
        shown = [
            work
            for work in works
            if not work.decision.actions
            and work.decision.status is not None
            and work.actual.topic is not None
        ]
        if not shown:
            return
        measures = await topics.measure(work.actual.topic for work in shown if work.actual.topic is not None)
        for work in shown:
            work.actual = replace(work.actual, measures=measures.get(work.desired.topic, {}))
            work.decision = decide(work.desired, work.actual)

    async def _on_brokers(self, works: Sequence[_Work], topics: BrokerTopics) -> None:
        steps = [step for work in works for step in work.decision.actions if isinstance(step, OnBrokers)]
        if not steps:
            return
        refused = await topics.carry_out(steps)
        for work in works:
            failure = refused.get(work.desired.topic)
            if failure is not None and work.has_changed:
                # What was looked at in between was older than what this run had done: brokers hear of it in turn.
                self._fail(work, StaleRead(f"{work.key}: a broker has not heard of what was done: {failure}"))
                continue
            work.has_changed = failure is None
            is_made = any(isinstance(step, Create) for step in work.decision.actions) and failure is None
            work.actual = replace(
                work.actual,
                made_now=work.actual.made_now or is_made,
                failure=None if failure is None else failure_of(failure),
            )
            if failure is None:
                await self._tell(work)

    # --- one Topic ----------------------------------------------------------------------------------------------------

    async def _before_brokers(self, work: _Work) -> None:
        for action in work.decision.actions:
            if isinstance(action, AddFinalizer):
                work.body = await add_finalizer(self._environment.kubernetes, TOPICS, work.body)
                work.desired = replace(work.desired, has_finalizer=True)
            elif isinstance(action, NoteCreating):
                noted = replace(work.desired.status, creating=work.desired.uid)
                stated = [ready(False, "Creating", "the topic is about to be made")]
                work.body = await self._environment.write_status(work.body, noted, stated) or work.body
                work.desired = replace(work.desired, status=noted)
                work.actual = replace(work.actual, noted_now=True)

    async def _after_brokers(self, work: _Work) -> None:
        decision = work.decision
        is_refused = work.actual.failure is not None and decision.touches_brokers
        if any(isinstance(action, RemoveFinalizer) for action in decision.actions) and not is_refused:
            if not decision.touches_brokers:
                await self._tell(work)
            await remove_finalizer(self._environment.kubernetes, TOPICS, work.body)
            work.desired = replace(work.desired, has_finalizer=False)
            if work.desired.is_deleted:
                work.is_open = False
            else:
                work.body = (
                    await self._environment.kubernetes.get(TOPICS, self._namespace, work.key.name)
                    or work.body
                )
        if decision.actions:
            return
        work.is_open = False
        self._outcomes.append(await leave(self._environment, work.body, work.desired, decision))

    async def _say_invalid(self, what: tuple[Json, InvalidResource]) -> None:
        body, problem = what
        outcome = await leave_invalid(self._environment, TOPICS, body, problem, status=TopicStatus)
        if outcome is not None:
            self._outcomes.append(outcome)

    async def _tell(self, work: _Work) -> None:
        await tell(self._environment, work.body, work.decision.events)

    def _fail(self, work: _Work, failure: Exception) -> None:
        work.is_open = False
        self._failures[work.key] = failure

    async def _each(self, items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
        """Act on all, some at a time. What goes wrong with one is its own failure."""

        async def one(item: T) -> None:
            async with self._writes:
                try:
                    await act(item)
                except NotFound:
                    if isinstance(item, _Work):
                        item.is_open = False  # it is gone, which is for another pass to see
                except KubernetesError as failure:
                    if isinstance(item, _Work):
                        self._fail(item, failure)
                    else:
                        logger.warning("an invalid Topic could not be told so: %s", failure)

        await asyncio.gather(*(one(item) for item in items))


def _thing(desired: Desired) -> tuple[str, str, str]:
    return desired.uid, desired.spec.cluster, desired.topic
