"""Decisions about one ConsumerGroup: a pure function of what is wanted and what there is."""

from __future__ import annotations

from dataclasses import replace

from odradek.foundation.words import count
from odradek_operator.gateways.group_values import ActualGroup, SetOffsets
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    DesiredGroup,
    GroupDecision,
    Note,
    Resolve,
)
from odradek_operator.reconcilers.consumer_group.observed import group_status
from odradek_operator.reconcilers.consumer_group.positions import missing_topics, partitions_of, time_of
from odradek_operator.reconcilers.consumer_group.reset import ENDED, next_step
from odradek_operator.reconcilers.consumer_group.scaling import plan_scaling
from odradek_operator.reconcilers.consumer_group.settings import (
    DEAD_LETTER_TOPIC_READY,
    check_dead_letter_topic,
    plan_settings,
)
from odradek_operator.reconcilers.decisions import (
    REFUSED_AGAIN_SECONDS,
    Event,
)
from odradek_operator.resources.conditions import Condition, condition, ready_condition
from odradek_operator.resources.consumer_group import ConsumerGroupStatus, ResetPhase

# Lag is read often while a group has members or lag, and otherwise seldom.
LOOK_AGAIN_SECONDS = 15.0
QUIET_AGAIN_SECONDS = 60.0
START_AGAIN_SECONDS = 5.0

MEMBERS_AS_EXPECTED = "MembersAsExpected"
LAG_WITHIN_OBJECTIVE = "LagWithinObjective"
TOPICS_EXIST = "TopicsExist"
RESET = "Reset"
STARTED = "Started"


def decide(desired: DesiredGroup, actual: ActualGroupState) -> GroupDecision:
    """The next steps, or the status to write where there are none."""
    if desired.is_deleted:
        # The record of what goes with its resource has it, and the group goes when the resource has gone.
        return GroupDecision(actions=desired.release_steps())
    if actual.older is not None:
        message = (
            f"the group {desired.group_id} belongs to the ConsumerGroup {actual.older}; delete one of the two"
        )
        return GroupDecision.with_condition(
            desired, ready_condition(False, "GroupTaken", message), *desired.release_steps()
        )
    absence = GroupDecision.without_cluster(desired, actual.reachability, actual.problem)
    if absence is not None:
        return absence
    if actual.failure is not None:
        refused = ready_condition(False, actual.failure.reason, actual.failure.message)
        pause = REFUSED_AGAIN_SECONDS if actual.failure.is_lasting else START_AGAIN_SECONDS
        return GroupDecision.with_condition(desired, refused, again_seconds=pause)
    assert actual.group is not None
    if desired.is_paused:
        return _decide_status(
            desired,
            actual,
            desired.status,
            ready_condition(None, "Paused", "nothing is changed while this is paused"),
        )
    if released := desired.release_steps():
        return GroupDecision(actions=released)
    return _decide_governed(desired, actual, actual.group)


def _decide_governed(desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup) -> GroupDecision:
    if (other := _other_type(desired, group)) is not None:
        return _decide_status(desired, actual, desired.status, other)
    if changes := plan_settings(desired, group):
        return GroupDecision(actions=changes)
    status = desired.status
    again_seconds: float | None = None
    step = next_step(desired, actual, group)
    if step is not None:
        if step.actions:
            return GroupDecision(actions=step.actions, events=step.events)
        status, again_seconds = step.status or status, step.again_seconds
    start = _start(desired, actual, group)
    if isinstance(start, GroupDecision):
        return start
    if scaling := plan_scaling(desired, actual, group_status(desired, actual)):
        return GroupDecision(actions=scaling)
    decision = _decide_status(
        replace(desired, status=status), actual, status, ready_condition(True, "Governed"), start
    )
    if again_seconds is not None:
        decision = replace(decision, again_seconds=again_seconds)
    return decision


def _other_type(desired: DesiredGroup, group: ActualGroup) -> Condition | None:
    """Why nothing is done to a group whose members divide its records in another way."""
    if not group.type or group.is_queue == desired.is_queue:
        return None
    declared, found = ("Consumer", "Share") if group.is_queue else ("Share", "Consumer")
    message = (
        f"{desired.group_id} is a group of the type {found}, and type is {declared}; declare it so, or stop its "
        "members and delete the group"
    )
    return ready_condition(False, "OtherType", message)


# --- the initial position ------------------------------------------------------------------------------------------


def _start(
    desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup
) -> GroupDecision | Condition | None:
    """Steps to the initial position, or what stands in its way, or None when that is settled."""
    position = desired.spec.initial_position
    if position is None or desired.status.started_from is not None:
        return None
    assert actual.seen is not None
    if group.committed:
        begun = "the group has committed offsets"
        return GroupDecision(actions=(Note(replace(desired.status, started_from=begun)),))
    missing = missing_topics(desired.spec.topics, actual.seen)
    if missing or not desired.spec.topics:
        named = f"there is no topic {', '.join(missing)} yet" if missing else "no topics are named"
        return condition(
            STARTED, False, "TopicsMissing", f"the group begins once its topics are there: {named}"
        )
    if group.is_in_zookeeper:
        message = (
            "the group is kept in ZooKeeper and has committed nothing; it begins where autooffset.reset of its "
            "consumers says"
        )
        return condition(STARTED, False, "InZooKeeper", message)
    if group.members:
        where = "where share.auto.offset.reset says" if desired.is_queue else "where they do"
        message = (
            f"the group has {count(len(group.members), 'member')} and has committed nothing, so it begins {where}; "
            "stop them for a moment to have it begin at initialPosition"
        )
        return condition(STARTED, False, "GroupActive", message)
    if actual.resolved is None:
        try:
            when = time_of(position, actual.now)
        except ValueError as problem:
            return condition(STARTED, False, "InvalidPosition", f"{problem}; correct initialPosition")
        partitions = partitions_of(desired.spec.topics, actual.seen)
        return GroupDecision(actions=(Resolve(dict.fromkeys(partitions, when)),))
    begun = f"{position.at}, set in {count(len(actual.resolved), 'partition')}"
    return GroupDecision(
        actions=(
            SetOffsets(desired.group_id, actual.resolved, is_queue=desired.is_queue),
            Note(replace(desired.status, started_from=begun)),
        )
    )


# --- the status ---------------------------------------------------------------------------------------------------


def _decide_status(
    desired: DesiredGroup,
    actual: ActualGroupState,
    status: ConsumerGroupStatus,
    first: Condition,
    start: Condition | None = None,
) -> GroupDecision:
    assert actual.group is not None
    assert actual.seen is not None
    shown = group_status(replace(desired, status=status), actual)
    conditions = [first]
    missing = missing_topics(desired.spec.topics, actual.seen)
    if desired.spec.topics:
        message = f"there is no topic {', '.join(missing)}; make it, or correct topics" if missing else ""
        conditions.append(condition(TOPICS_EXIST, not missing, "Missing" if missing else "AllThere", message))
    if start is not None:
        conditions.append(start)
    conditions += [
        one
        for one in (
            check_dead_letter_topic(desired, actual),
            _members_condition(desired, actual),
            _lag_condition(desired, shown),
            _reset(shown),
        )
        if one is not None
    ]
    # What scales from nothing is to see the first record soon.
    is_quiet = not (actual.group.members or (shown.lag and shown.lag.messages) or desired.spec.scaling)
    again_seconds = QUIET_AGAIN_SECONDS if is_quiet and start is None else LOOK_AGAIN_SECONDS
    if start is not None:
        again_seconds = START_AGAIN_SECONDS
    return GroupDecision(
        status=shown,
        conditions=tuple(conditions),
        events=_change_events(desired, conditions),
        again_seconds=again_seconds,
    )


def _members_condition(desired: DesiredGroup, actual: ActualGroupState) -> Condition | None:
    assert actual.group is not None
    current, expected, wanted = len(actual.group.members), desired.spec.members, desired.spec.replicas
    if wanted is None and desired.spec.scaling is not None:
        wanted = desired.spec.scaling.min
    if expected is None and wanted is None:
        return None
    members = count(current, "member")
    low = wanted if expected is None or expected.min is None else expected.min
    high = None if expected is None else expected.max
    if (problem := _workload_condition(desired, actual)) is not None:
        return problem
    if low is not None and current < low:
        message = f"the group has {members}, and {low} are expected; look at the consumers that are missing"
        return condition(MEMBERS_AS_EXPECTED, False, "TooFew", message)
    if high is not None and current > high:
        message = f"the group has {members}, and at most {high} are expected; look for consumers too many"
        return condition(MEMBERS_AS_EXPECTED, False, "TooMany", message)
    return condition(MEMBERS_AS_EXPECTED, True, "AsExpected")


def _workload_condition(desired: DesiredGroup, actual: ActualGroupState) -> Condition | None:
    """Why the workload is not scaled."""
    workload, seen = desired.spec.workload, actual.workload
    if workload is None or seen is None:
        return None
    if seen.not_allowed:
        return condition(MEMBERS_AS_EXPECTED, False, "WorkloadNotAllowed", seen.not_allowed)
    if seen.refusal:
        message = (
            f"Kubernetes refuses to scale {workload}; give the operator's role this right, lift the quota, or take "
            f"workload away: {seen.refusal}"
        )
        return condition(MEMBERS_AS_EXPECTED, False, "WorkloadRefused", message)
    if seen.replicas is None:
        message = f"there is no {workload} to run consumers; make it, or correct workload"
        return condition(MEMBERS_AS_EXPECTED, False, "WorkloadMissing", message)
    return None


def _lag_condition(desired: DesiredGroup, shown: ConsumerGroupStatus) -> Condition | None:
    objective, lag = desired.spec.lag, shown.lag
    if objective is None or lag is None:
        return None
    if lag.within_objective is None:
        message = (
            "the age of records that wait is not known: the brokers' admin ports do not answer; "
            "look at NetworkPolicies"
        )
        return condition(LAG_WITHIN_OBJECTIVE, None, "AgeUnknown", message)
    if lag.within_objective:
        return condition(LAG_WITHIN_OBJECTIVE, True, "Within")
    wanted = [f"{objective.messages} messages"] if objective.messages is not None else []
    wanted += [f"{objective.seconds} s"] if objective.seconds is not None else []
    message = (
        f"the group is behind by more than {' or '.join(wanted)}, in {count(lag.partitions_behind, 'partition')}; add "
        "consumers, or look at those that do not commit"
    )
    return condition(LAG_WITHIN_OBJECTIVE, False, "Behind", message)


def _reset(shown: ConsumerGroupStatus) -> Condition | None:
    known = shown.reset
    if known is None:
        return None
    holds = known.phase in (ResetPhase.DONE, ResetPhase.REPEATED) if known.phase in ENDED else None
    return condition(RESET, holds, str(known.phase), known.message)


_REPORTED = (MEMBERS_AS_EXPECTED, LAG_WITHIN_OBJECTIVE, TOPICS_EXIST, STARTED, DEAD_LETTER_TOPIC_READY)


def _change_events(desired: DesiredGroup, conditions: list[Condition]) -> tuple[Event, ...]:
    """The changes that are worth an event: a condition that ceases to hold, or holds again."""
    before = {known.type: str(known.status) for known in desired.status.conditions}
    events = []
    for stated in conditions:
        if stated.type not in _REPORTED or before.get(stated.type, "True") == str(stated.status):
            continue
        if str(stated.status) == "False":
            events.append(Event(f"{stated.type}Lost", stated.message, is_warning=True))
        elif str(stated.status) == "True":
            events.append(Event(f"{stated.type}Restored", f"{stated.type} holds again"))
    return tuple(events)
