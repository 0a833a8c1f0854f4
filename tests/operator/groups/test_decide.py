"""What is decided about one ConsumerGroup, case by case: values in, steps and status out. Resets stand apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import GroupsSeen, PartitionEnds, SetOffsets
from odradek_operator.reconcilers.broker_failures import Failure
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    GroupDecision,
    Note,
    Resolve,
    ScaleWorkload,
    WorkloadSeen,
)
from odradek_operator.reconcilers.decisions import Reachability, RemoveFinalizer
from odradek_operator.resources.consumer_group import ConsumerGroupStatus
from odradek_operator.resources.structure import InvalidResource, parse, render
from tests.operator.groups.cases import (
    COMMITTED,
    NOW,
    NOW_MS,
    TO_EARLIEST,
    A,
    B,
    event_reasons,
    group,
    noted,
    stated,
    there,
    wanted,
)

# --- what is shown -------------------------------------------------------------------------------------------------


def test_a_group_shows_its_members_and_how_far_behind_they_are() -> None:
    decision = decide(wanted(), there(group(members=1, committed={A: 90, B: 40}), age_seconds=7))
    assert stated(decision) == ("True", "Governed")
    status = decision.status
    assert status is not None
    assert (status.state, status.replicas, status.coordinator) == ("Stable", 1, 1)
    assert status.members[0].assignment == ("orders-0", "orders-1")
    assert status.members[0].host == "10.0.0.7"
    assert status.lag is not None
    assert (status.lag.messages, status.lag.seconds, status.lag.partitions_behind) == (70, 7, 2)
    assert [(row.partition, row.messages) for row in status.partitions] == [(1, 60), (0, 10)]
    assert decision.again_seconds == 15
    assert parse(ConsumerGroupStatus, render(status)) == status


def test_records_of_partitions_without_a_commit_count_from_the_first_kept() -> None:
    decision = decide(wanted(), there(group(members=1, committed={B: 100})))
    assert decision.status is not None
    assert decision.status.lag is not None
    assert decision.status.lag.messages == 90
    assert decision.status.lag.seconds is None, "the brokers did not answer"


def test_one_that_reads_all_is_not_behind_and_is_looked_at_seldom() -> None:
    decision = decide(wanted(), there(group(committed={A: 100, B: 100})))
    assert decision.status is not None
    assert decision.status.lag is not None
    assert (decision.status.lag.messages, decision.status.lag.seconds) == (0, 0)
    assert decision.again_seconds == 60


def test_the_status_of_a_group_at_rest_does_not_change() -> None:
    actual = there(group(committed={A: 100, B: 100}))
    first = decide(wanted(), actual).status
    assert first is not None
    again = decide(wanted(first), replace(actual, now=NOW + timedelta(minutes=5))).status
    assert again == first


def test_what_is_shown_is_bounded() -> None:
    committed = {TopicPartition("wide", number): 0 for number in range(500)}
    seen = GroupsSeen(
        groups={},
        partitions={"wide": tuple(range(500)), "orders": (0, 1)},
        ends={where: PartitionEnds(0, where.partition) for where in committed},
    )
    decision = decide(
        wanted(), ActualGroupState(now=NOW, group=group(members=100, committed=committed), seen=seen)
    )
    assert decision.status is not None
    assert (len(decision.status.partitions), len(decision.status.members)) == (64, 32)
    assert decision.status.partitions[0].partition == 499
    assert decision.status.replicas == 100


# --- what is expected ----------------------------------------------------------------------------------------------


def test_members_that_are_missing_or_too_many_are_a_condition_and_an_event() -> None:
    expected: dict[str, Any] = {"members": {"min": 1, "max": 2}}
    for count, truth in ((0, ("False", "TooFew")), (2, ("True", "AsExpected")), (3, ("False", "TooMany"))):
        decision = decide(wanted(**expected), there(group(members=count)))
        assert stated(decision, "MembersAsExpected") == truth
        assert event_reasons(decision) == (["MembersAsExpectedLost"] if truth[0] == "False" else [])
    lost = decide(wanted(**expected), there(group())).conditions
    back = decide(wanted(ConsumerGroupStatus(conditions=lost), **expected), there(group(members=1)))
    assert event_reasons(back) == ["MembersAsExpectedRestored"]


@pytest.mark.parametrize(
    ("objective", "age", "truth"),
    [
        ({"messages": 200}, None, ("True", "Within")),
        ({"messages": 100}, None, ("False", "Behind")),
        ({"seconds": 10}, 9, ("True", "Within")),
        ({"seconds": 10}, 11, ("False", "Behind")),
        ({"seconds": 10}, None, ("Unknown", "AgeUnknown")),
        ({"messages": 1, "seconds": 10}, None, ("False", "Behind")),
    ],
)
def test_the_lag_objective(objective: dict[str, int], age: float | None, truth: tuple[str, str]) -> None:
    decision = decide(
        wanted(lag=objective), there(group(members=1, committed={A: 10, B: 0}), age_seconds=age)
    )
    assert stated(decision, "LagWithinObjective") == truth
    assert ("LagWithinObjectiveLost" in event_reasons(decision)) == (truth[0] == "False")


@pytest.mark.parametrize(("known_age", "truth"), [(9, ("Unknown", "AgeUnknown")), (11, ("False", "Behind"))])
def test_an_age_that_is_not_known_is_not_taken_for_a_young_one(
    known_age: float, truth: tuple[str, str]
) -> None:
    """One leader does not say how old its records are."""
    actual = there(group(members=1, committed={A: 10, B: 0}), age_seconds=known_age)
    assert actual.seen is not None
    times = {where: time for where, time in actual.seen.record_times_ms.items() if where[1] == A}
    decision = decide(
        wanted(lag={"seconds": 10}), replace(actual, seen=replace(actual.seen, record_times_ms=times))
    )
    assert stated(decision, "LagWithinObjective") == truth
    assert decision.status is not None and decision.status.lag is not None
    assert decision.status.lag.seconds is None


def test_topics_that_are_not_there_are_named() -> None:
    decision = decide(wanted(topics=["orders", "ordres"]), there(group()))
    (found,) = [one for one in decision.conditions if one.type == "TopicsExist"]
    assert (str(found.status), found.reason) == ("False", "Missing")
    assert "ordres" in found.message


def test_the_workload_follows_the_wanted_number() -> None:
    spec: dict[str, Any] = {"replicas": 3, "workload": {"name": "billing-app"}}
    decision = decide(wanted(**spec), there(group(), workload=WorkloadSeen(replicas=1, selector="app=b")))
    assert decision.actions == (ScaleWorkload("Deployment", "billing-app", 3),)
    scaled = decide(
        wanted(**spec), there(group(members=1), workload=WorkloadSeen(replicas=3, selector="app=b"))
    )
    assert scaled.actions == ()
    assert stated(scaled, "MembersAsExpected") == ("False", "TooFew")
    assert scaled.status is not None
    assert (scaled.status.selector, scaled.status.replicas) == ("app=b", 1)
    missing = decide(wanted(**spec), there(group(), workload=WorkloadSeen()))
    assert stated(missing, "MembersAsExpected") == ("False", "WorkloadMissing")


# --- where the group begins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "asked"),
    [
        ({"at": "Earliest"}, EARLIEST),
        ({"at": "Latest"}, LATEST),
        ({"at": "Timestamp", "timestamp": "2026-01-01T11:00:00Z"}, NOW_MS - 3_600_000),
        ({"at": "Duration", "duration": "2h"}, NOW_MS - 7_200_000),
    ],
)
def test_the_initial_position_is_set_once(position: dict[str, str], asked: int) -> None:
    desired = wanted(initialPosition=position)
    actual = there(group(state=None))
    assert decide(desired, actual).actions == (Resolve({A: asked, B: asked}),)
    decision = decide(desired, replace(actual, resolved={A: 10, B: 3}))
    step, note = decision.actions
    assert step == SetOffsets("billing", {A: 10, B: 3})
    assert isinstance(note, Note)
    assert decide(replace(desired, status=note.status), actual).actions == ()


def test_a_group_that_has_begun_is_left_where_it_is() -> None:
    status = noted(decide(wanted(initialPosition={"at": "Latest"}), there(group(committed={A: 5}))))
    assert status.started_from == "the group has committed offsets"


def test_what_stands_in_the_way_of_the_initial_position_is_said() -> None:
    active = decide(wanted(initialPosition={"at": "Earliest"}), there(group(members=1)))
    assert stated(active, "Started") == ("False", "GroupActive")
    early = decide(wanted(initialPosition={"at": "Earliest"}), there(group(), partitions={}))
    assert stated(early, "Started") == ("False", "TopicsMissing")
    wrong = decide(wanted(initialPosition={"at": "Timestamp", "timestamp": "soon"}), there(group()))
    assert stated(wrong, "Started") == ("False", "InvalidPosition")


# --- deletion, others ----------------------------------------------------------------------------------------------


def test_nothing_is_held_and_an_earlier_finalizer_is_taken_off() -> None:
    held: dict[str, Any] = {"has_finalizer": True, "deletionPolicy": "Delete"}
    own = ConsumerGroupStatus(owner_uid="me")
    assert decide(wanted(own, **held), there(group())).actions == (RemoveFinalizer(),)
    for reachability in Reachability:
        actual = ActualGroupState(now=NOW, reachability=reachability, problem="why")
        assert decide(wanted(own, is_deleted=True, **held), actual).actions == (RemoveFinalizer(),)
    assert decide(wanted(own, is_deleted=True), there(group())) == GroupDecision()


def test_a_second_resource_or_one_without_a_cluster_says_so() -> None:
    assert stated(decide(wanted(), there(group(), older="first"))) == ("False", "GroupTaken")
    assert stated(decide(wanted(), ActualGroupState(now=NOW, reachability=Reachability.GONE))) == (
        "False",
        "ClusterNotFound",
    )
    unreachable = ActualGroupState(now=NOW, reachability=Reachability.UNREACHABLE)
    assert stated(decide(wanted(), unreachable)) == ("Unknown", "ClusterUnreachable")
    refused = decide(wanted(), there(group(), failure=Failure("GroupAuthorizationFailed", "no", True)))
    assert stated(refused) == ("False", "GroupAuthorizationFailed")


def test_a_paused_group_is_only_looked_at() -> None:
    decision = decide(wanted(is_paused=True, reset=TO_EARLIEST), there(group(committed=COMMITTED)))
    assert (decision.actions, stated(decision)) == ((), ("Unknown", "Paused"))
    assert decision.status is not None
    assert decision.status.lag is not None


def test_a_spec_that_contradicts_itself_is_no_spec() -> None:
    with pytest.raises(InvalidResource, match="whenActive"):
        wanted(reset={**TO_EARLIEST, "whenActive": "Never"})


def test_a_workload_that_kubernetes_refuses_to_scale_is_in_the_status() -> None:
    desired = wanted(replicas=3, workload={"name": "app"})
    refused = WorkloadSeen(replicas=1, refusal='deployments.apps "app" is forbidden: exceeded quota')
    decision = decide(desired, there(group(members=1, committed=COMMITTED), workload=refused))
    assert decision.actions == () and decision.status is not None
    assert stated(decision) == ("True", "Governed")
    assert stated(decision, "MembersAsExpected") == ("False", "WorkloadRefused")
    (found,) = [one for one in decision.conditions if one.type == "MembersAsExpected"]
    assert "exceeded quota" in found.message and "Deployment app" in found.message
    assert event_reasons(decision) == ["MembersAsExpectedLost"]
