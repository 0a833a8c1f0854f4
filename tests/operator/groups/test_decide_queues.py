"""What is decided about groups of the type Share, about settings, and about scaling by backlog: values in and out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from odradek_operator.gateways.group_values import (
    ActualGroup,
    AlterSettings,
    DeadLetterRules,
    PartitionEnds,
    SetOffsets,
)
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    DesiredGroup,
    GroupDecision,
    Note,
    ScaleWorkload,
    WorkloadSeen,
)
from odradek_operator.reconcilers.consumer_group.settings import expect_group
from odradek_operator.resources.consumer_group import ConsumerGroupStatus
from odradek_operator.resources.structure import InvalidResource, parse, render
from tests.operator.groups.cases import COMMITTED, NOW, A, B, group, stated, there, wanted

LIMIT = "share.delivery.count.limit"
LETTERS = {"topic": "dlq.orders", "copyRecords": True}
LETTER_SETTINGS = {
    "errors.deadletterqueue.topic.name": "dlq.orders",
    "errors.deadletterqueue.copy.record.enable": "true",
}
WORKLOAD: dict[str, Any] = {"workload": {"name": "workers"}}


def wanted_queue(status: ConsumerGroupStatus | None = None, **spec: Any) -> DesiredGroup:
    return wanted(status, type="Share", **spec)


def queue(**more: Any) -> ActualGroup:
    return group(**{"type": "share", **more})


def with_rules(
    actual: ActualGroupState, rules: DeadLetterRules | None, *, letters: int | None = 3
) -> ActualGroupState:
    assert actual.seen is not None
    place = A._replace(topic="dlq.orders")
    partitions = dict(actual.seen.partitions)
    ends = dict(actual.seen.ends)
    if letters is not None:
        partitions["dlq.orders"], ends[place] = (0,), PartitionEnds(5, 5 + letters)
    return replace(
        actual, seen=replace(actual.seen, partitions=partitions, ends=ends, dead_letter_rules=rules)
    )


def lag_of(decision: GroupDecision) -> tuple[int, float | None, int]:
    assert decision.status is not None
    assert decision.status.lag is not None
    return decision.status.lag.messages, decision.status.lag.seconds, decision.status.lag.partitions_behind


# --- queues --------------------------------------------------------------------------------------------------------


def test_the_lag_of_a_queue_is_what_is_not_done() -> None:
    seen = there(queue(members=2, committed=COMMITTED, undone={A: 4, B: 0}), age_seconds=7)
    decision = decide(wanted_queue(), seen)
    assert stated(decision) == ("True", "Governed")
    assert lag_of(decision) == (4, 7, 1)
    assert decision.status is not None
    assert (decision.status.type, decision.status.partitions[0].committed) == ("share", 90)
    assert parse(ConsumerGroupStatus, render(decision.status)) == decision.status


def test_a_broker_that_does_not_know_the_lag_has_a_bound_of_it() -> None:
    assert lag_of(decide(wanted_queue(), there(queue(committed=COMMITTED)))) == (70, None, 2)


@pytest.mark.parametrize(
    ("begins_at", "lag"), [("earliest", 190), ("latest", 0), ("by_duration:PT1H", 0), ("", 0)]
)
def test_a_partition_not_begun_counts_where_a_queue_begins_with_the_first(begins_at: str, lag: int) -> None:
    assert lag_of(decide(wanted_queue(), there(queue(begins_at=begins_at))))[0] == lag


@pytest.mark.parametrize(
    ("declared", "found"), [("Share", "classic"), ("Share", "zookeeper"), ("Consumer", "share")]
)
def test_a_group_of_another_type_is_shown_and_left_alone(declared: str, found: str) -> None:
    position = {"at": "Earliest"}
    desired = wanted(type=declared, config={LIMIT: 9}, initialPosition=position)
    decision = decide(desired, there(group(type=found)))
    assert decision.actions == ()
    assert stated(decision) == ("False", "OtherType")


def test_a_queue_is_moved_as_a_queue() -> None:
    reset = {"id": "one", "to": {"at": "Earliest"}}
    desired = wanted_queue(reset=reset)
    actual = there(queue(committed=COMMITTED), resolved={A: 10, B: 0})
    for _ in range(3):
        decision = decide(desired, actual)
        for step in decision.actions:
            if isinstance(step, Note):
                desired = replace(desired, status=step.status)
            elif isinstance(step, SetOffsets):
                assert step == SetOffsets("billing", {A: 10, B: 0}, is_queue=True)
                return
            else:
                digest = step.digests  # type: ignore[union-attr]
                actual = there(queue(committed=COMMITTED, resets=digest))
    raise AssertionError("the offsets are never set")


# --- settings ------------------------------------------------------------------------------------------------------


def test_settings_are_noted_made_kept_and_given_back() -> None:
    desired = wanted_queue(config={LIMIT: 9}, deadLetters=LETTERS)
    assert set(expect_group(desired).setting_keys) == {LIMIT, *LETTER_SETTINGS}
    noted, step = decide(desired, there(queue())).actions
    assert isinstance(noted, Note)
    assert set(noted.status.settings) == {LIMIT, *LETTER_SETTINGS}
    assert step == AlterSettings("billing", {LIMIT: "9", **LETTER_SETTINGS})
    made = queue(settings={LIMIT: "9", **LETTER_SETTINGS})
    desired = replace(desired, status=noted.status)
    decision = decide(desired, there(made))
    assert decision.actions == ()
    assert decision.status is not None
    assert decision.status.settings == noted.status.settings
    drifted = queue(settings={**made.settings, LIMIT: "3"})
    assert decide(desired, there(drifted)).actions == (AlterSettings("billing", {LIMIT: "9"}),)
    fewer = wanted_queue(noted.status, config={LIMIT: 9})
    assert decide(fewer, there(made)).actions == (
        AlterSettings("billing", dict.fromkeys(LETTER_SETTINGS, None)),
    )
    gone = decide(fewer, there(queue(settings={LIMIT: "9"})))
    assert gone.status is not None
    assert gone.status.settings == (LIMIT,)


def test_settings_of_others_are_left() -> None:
    assert decide(wanted_queue(), there(queue(settings={LIMIT: "9"}))).actions == ()


def test_a_consumer_group_has_settings_too() -> None:
    (_, step) = decide(wanted(config={"consumer.session.timeout.ms": 60000}), there(group())).actions
    assert step == AlterSettings("billing", {"consumer.session.timeout.ms": "60000"})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"config": {"share.delivery.count.limits": 3}}, "did you mean share.delivery.count.limit"),
        ({"config": {"share.delivery.count.limit": 1}}, "2"),
        ({"config": {"errors.deadletterqueue.topic.name": "dlq.a"}}, "set spec.deadLetters.topic"),
        ({"config": {"odradek.resets": "a"}}, "the operator keeps it"),
        ({"deadLetters": {}}, "topic"),
        ({"scaling": {"max": 3}}, "messagesPerMember"),
    ],
)
def test_wrong_specs_are_refused(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidResource, match=problem):
        wanted_queue(**spec)


# --- dead letters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "letters", "truth"),
    [
        (DeadLetterRules("dlq.", allowing=frozenset({"dlq.orders"})), 3, ("True", "Allowed")),
        (DeadLetterRules("dlq."), 3, ("False", "NotAllowed")),
        (DeadLetterRules("dead."), 3, ("False", "NameRefused")),
        (DeadLetterRules("dlq."), None, ("False", "Missing")),
        (DeadLetterRules("dlq.", creates_topics=True), None, ("True", "CreatedWhenNeeded")),
        (None, 3, ("Unknown", "Unknown")),
    ],
)
def test_the_dead_letter_topic_is_looked_at(
    rules: DeadLetterRules | None, letters: int | None, truth: tuple[str, str]
) -> None:
    seen = with_rules(there(queue(settings=LETTER_SETTINGS)), rules, letters=letters)
    decision = decide(wanted_queue(deadLetters=LETTERS), seen)
    assert stated(decision, "DeadLetterTopicReady") == truth
    assert decision.status is not None
    assert decision.status.dead_letters is not None
    assert decision.status.dead_letters.records == letters


# --- scaling -------------------------------------------------------------------------------------------------------


def scaled_to(decision: GroupDecision) -> int | None:
    steps = [step for step in decision.actions if isinstance(step, ScaleWorkload)]
    assert len(steps) == len(decision.actions)
    return steps[0].replicas if steps else None


def with_backlog(messages: int, replicas: int, **more: Any) -> ActualGroupState:
    found = more.pop("group", queue(committed=COMMITTED, undone={A: messages, B: 0}))
    return there(found, end=10_000_000, workload=WorkloadSeen(replicas=replicas), **more)


@pytest.mark.parametrize(
    ("messages", "replicas", "to"),
    [(0, 1, None), (100, 1, None), (101, 1, 2), (950, 1, 10), (10_000, 1, 20), (10_000, 30, 20)],
)
def test_a_backlog_gets_consumers_at_once(messages: int, replicas: int, to: int | None) -> None:
    scaling = {"messagesPerMember": 100, "max": 20}
    assert (
        scaled_to(decide(wanted_queue(scaling=scaling, **WORKLOAD), with_backlog(messages, replicas))) == to
    )


def test_consumers_go_when_fewer_were_enough_for_long() -> None:
    scaling = {"messagesPerMember": 100, "max": 20, "scaleDownAfter": "2m"}
    desired = wanted_queue(scaling=scaling, **WORKLOAD)
    for seconds, messages, to in (
        (0, 300, None),
        (60, 700, None),
        (119, 100, None),
        (120, 200, 7),  # Seven were needed in these two minutes, at most.
    ):
        decision = decide(desired, with_backlog(messages, 10, now=NOW + timedelta(seconds=seconds)))
        assert scaled_to(decision) == to, seconds
        if to is None:
            assert decision.status is not None
            desired = replace(desired, status=decision.status)
    again = decide(desired, with_backlog(1000, 10, now=NOW + timedelta(seconds=121)))
    assert again.status is not None
    assert again.status.scaling is not None
    assert (again.status.scaling.wanted, again.status.scaling.fewer_since) == (10, None)


def test_a_queue_rests_with_nothing_and_wakes_up() -> None:
    scaling = {"messagesPerMember": 100, "min": 0, "max": 20, "scaleDownAfter": "0s"}
    desired = wanted_queue(scaling=scaling, **WORKLOAD)
    assert scaled_to(decide(desired, with_backlog(0, 3))) == 0
    resting = decide(desired, with_backlog(0, 0))
    assert scaled_to(resting) is None
    assert resting.again_seconds == 15
    assert scaled_to(decide(desired, with_backlog(1, 0))) == 1
    assert scaled_to(decide(desired, with_backlog(0, 0, group=queue()))) == 1, "it begins with a consumer"


def test_a_consumer_group_gets_no_more_consumers_than_partitions() -> None:
    desired = wanted(scaling={"messagesPerMember": 1, "max": 20}, **WORKLOAD)
    assert scaled_to(decide(desired, with_backlog(0, 1, group=group(committed=COMMITTED)))) == 2
