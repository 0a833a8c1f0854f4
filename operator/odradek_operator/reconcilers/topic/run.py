"""The rounds of Topics. Those of a Cluster take each round together.

A round is a few requests for any number of Topics. As long as something was done, the Topics concerned take another
round. An ordinary Topic takes two, and the second finds it as wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.gateways.kubernetes import TOPICS, Json
from odradek_operator.gateways.topic_values import (
    ActualTopic,
    CreateTopic,
    DeleteTopic,
    OnBrokers,
    Reassign,
)
from odradek_operator.gateways.topics import BrokerTopics, TopicsSeen
from odradek_operator.reconcilers.broker_failures import failure_of
from odradek_operator.reconcilers.decisions import RemoveFinalizer, Work
from odradek_operator.reconcilers.declared import DeclaredThing
from odradek_operator.reconcilers.reconciler import status_of
from odradek_operator.reconcilers.rounds import ClusterAccess, ReconciledKind, Rounds
from odradek_operator.reconcilers.topic.decide import decide
from odradek_operator.reconcilers.topic.facts import (
    Action,
    ActualTopicState,
    DesiredTopic,
    NoteCreating,
    TopicDecision,
)
from odradek_operator.resources.conditions import ready_condition
from odradek_operator.resources.topic import TopicResourceSpec, TopicStatus


@dataclass(slots=True)
class TopicWork(Work[DesiredTopic, ActualTopicState, TopicDecision]):
    """A Topic on its way through the rounds. `has_changed`: the last round has changed its topic."""

    has_changed: bool = False


class StaleRead(Exception):
    """A read showed less than what was done before it; the next one will show more."""

    is_expected = True


def read_topic(body: Json, _: datetime) -> TopicWork:
    desired = DesiredTopic.read(body, spec=TopicResourceSpec, status=TopicStatus)
    return TopicWork(body, desired, ActualTopicState(), TopicDecision())


async def run_topics(
    rounds: Rounds[TopicWork], works: Sequence[TopicWork], client: Client, cluster: Json
) -> None:
    topics = BrokerTopics(client)
    touched = list(works)
    for _ in range(rounds.kind.rounds_max):
        seen = await topics.describe(work.desired.topic for work in touched)
        for work in touched:
            _observe(work, seen)
        await _decide_all(rounds, touched, topics)
        await rounds.run_each(touched, partial(_take_steps_before_brokers, rounds))
        await _take_steps_on_brokers(
            rounds, [work for work in touched if work.is_open and work.decision.touches_brokers], topics
        )
        await rounds.run_each(
            [work for work in touched if work.is_open], partial(_take_steps_after_brokers, rounds)
        )
        touched = [work for work in works if work.is_open]
        if not touched:
            return
    for work in touched:
        rounds.fail_restless(work)


async def _decide_all(rounds: Rounds[TopicWork], works: Sequence[TopicWork], topics: BrokerTopics) -> None:
    for work in works:
        rounds.decide(work)
    moving = [work for work in works if any(isinstance(step, Reassign) for step in work.decision.actions)]
    if moving and (machines := await topics.find_machines()):
        for work in moving:
            work.actual = replace(work.actual, machines=machines)
            rounds.decide(work)
    # Only topics whose status is about to be written are measured.
    shown = {
        work.desired.uid: (work, work.actual.topic)
        for work in works
        if not work.decision.actions and work.decision.status is not None and work.actual.topic is not None
    }
    if not shown:
        return
    measures = await topics.measure(topic for _, topic in shown.values())
    for work, topic in shown.values():
        work.actual = replace(work.actual, measures=measures.get(topic.name, {}))
        rounds.decide(work)


async def _take_steps_before_brokers(rounds: Rounds[TopicWork], work: TopicWork) -> None:
    for step in work.decision.actions:
        if isinstance(step, NoteCreating):
            await take_topic_step(rounds, work, step)


async def take_topic_step(rounds: Rounds[TopicWork], work: TopicWork, step: Action) -> bool:
    assert isinstance(step, NoteCreating), f"{step} is a step of a round over all topics"
    noted = replace(work.desired.status, creating=work.desired.uid)
    stated = [ready_condition(False, "Creating", "the topic is about to be made")]
    work.body = await rounds.environment.write_status(work.body, noted, stated) or work.body
    work.desired = replace(work.desired, status=noted)
    work.actual = replace(work.actual, noted_now=True)
    return True


async def _take_steps_on_brokers(
    rounds: Rounds[TopicWork], works: Sequence[TopicWork], topics: BrokerTopics
) -> None:
    steps = [step for work in works for step in work.decision.actions if isinstance(step, OnBrokers)]
    if not steps:
        return
    refused = await topics.carry_out(steps)
    for work in works:
        failure = refused.get(work.desired.topic)
        if failure is not None and work.has_changed:
            # Brokers learn of a change one after another, and one that does not know it yet was read.
            rounds.fail(work, StaleRead(f"{work.key}: a broker does not know the last change yet: {failure}"))
            continue
        work.has_changed = failure is None
        is_made = any(isinstance(step, CreateTopic) for step in work.decision.actions) and failure is None
        work.actual = replace(
            work.actual,
            made_now=work.actual.made_now or is_made,
            failure=None if failure is None else failure_of(failure),
        )
        if failure is None:
            await rounds.report_events(work)


async def _take_steps_after_brokers(rounds: Rounds[TopicWork], work: TopicWork) -> None:
    decision = work.decision
    is_refused = work.actual.failure is not None and decision.touches_brokers
    if any(isinstance(step, RemoveFinalizer) for step in decision.actions) and not is_refused:
        if not decision.touches_brokers:
            await rounds.report_events(work)
        await rounds.remove_finalizer(work)
    if not decision.actions:
        await rounds.finish_work(work)


def _observe(work: TopicWork, seen: TopicsSeen) -> None:
    found = seen.topics.get(work.desired.topic)
    work.actual = replace(
        work.actual,
        topic=found if isinstance(found, ActualTopic) else None,
        brokers=seen.brokers,
        failure=failure_of(found) if isinstance(found, OdradekError) else work.actual.failure,
    )


def topic_id(work: TopicWork) -> str | None:
    status = status_of(work.body, TopicStatus)
    return status.topic_id if status.owner_uid == work.desired.uid else None


async def remove_topics(
    client: Client, entries: Sequence[DeclaredThing], *, cluster: Json, clusters: ClusterAccess
) -> Mapping[str, str]:
    """Delete topics whose resources are gone, and no other one of their names."""
    topics = BrokerTopics(client)
    seen = await topics.describe(entry.thing for entry in entries)
    problems: dict[str, str] = {}
    own: dict[str, DeclaredThing] = {}
    for entry in entries:
        found = seen.topics.get(entry.thing)
        if isinstance(found, OdradekError):
            problems[entry.uid] = str(found)
        elif found is not None and str(found.id) == entry.id:
            own[entry.thing] = entry
    refused = await topics.carry_out([DeleteTopic(name) for name in own])
    return problems | {own[name].uid: str(failure) for name, failure in refused.items()}


TOPIC_KIND: Final = ReconciledKind(
    api=TOPICS,
    status=TopicStatus,
    rounds_max=6,
    read=read_topic,
    get_name=lambda work: work.desired.topic,
    get_id=topic_id,
    remove=remove_topics,
    decide=decide,
    run_rounds=run_topics,
    take_step=take_topic_step,
)
