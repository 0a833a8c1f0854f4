"""How many consumers a group is to have: as many as are named, or as the records that wait need. Pure.

More consumers come at once. Fewer come when fewer were enough for some time, and then as many as were needed at most
in that time. So a backlog that goes up and down moves no pods.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from odradek_operator.reconcilers.consumer_group.facts import (
    Action,
    ActualGroupState,
    DesiredGroup,
    ScaleWorkload,
    WorkloadSeen,
)
from odradek_operator.resources.conditions import format_timestamp
from odradek_operator.resources.consumer_group import ConsumerGroupStatus
from odradek_operator.resources.group_scaling import ScalingStatus


def plan_scaling(
    desired: DesiredGroup, actual: ActualGroupState, shown: ConsumerGroupStatus
) -> tuple[Action, ...]:
    """The step that gives the workload its number. `shown` is the status of the group as it was seen."""
    spec, seen = desired.spec, actual.workload
    if spec.workload is None or seen is None or seen.replicas is None or seen.refusal or seen.not_allowed:
        return ()
    wanted = spec.replicas if spec.scaling is None else _choose_replicas(desired, actual, seen, shown)
    if wanted is None or wanted == seen.replicas:
        return ()
    return (ScaleWorkload(str(spec.workload.kind), spec.workload.name, wanted),)


def measure_scaling(
    desired: DesiredGroup, actual: ActualGroupState, shown: ConsumerGroupStatus
) -> ScalingStatus | None:
    """What the backlog needs now, and since when fewer are enough than the workload has."""
    seen, before = actual.workload, desired.status.scaling
    if desired.spec.scaling is None or shown.lag is None:
        return None
    wanted = _count_needed(desired, actual, shown)
    if seen is None or seen.replicas is None or wanted >= seen.replicas:
        return ScalingStatus(wanted=wanted)
    if before is None or before.fewer_since is None:
        return ScalingStatus(wanted=wanted, fewer_since=format_timestamp(actual.now), highest_since=wanted)
    return replace(before, wanted=wanted, highest_since=max(wanted, before.highest_since or 0))


def _choose_replicas(
    desired: DesiredGroup, actual: ActualGroupState, seen: WorkloadSeen, shown: ConsumerGroupStatus
) -> int | None:
    """The number that the workload gets now; None where it keeps the one that it has."""
    scaling, stated = desired.spec.scaling, measure_scaling(desired, actual, shown)
    if scaling is None or stated is None or seen.replicas is None:
        return None
    if stated.wanted > seen.replicas:
        return stated.wanted
    if seen.replicas > scaling.max:
        return scaling.max
    if stated.fewer_since is None or stated.highest_since is None:
        return None
    waited_ms = (actual.now - datetime.fromisoformat(stated.fewer_since)).total_seconds() * 1000
    return stated.highest_since if waited_ms >= scaling.scale_down_after else None


def _count_needed(desired: DesiredGroup, actual: ActualGroupState, shown: ConsumerGroupStatus) -> int:
    """Consumers that the records need which wait now, within the bounds."""
    scaling, lag, group = desired.spec.scaling, shown.lag, actual.group
    assert scaling is not None
    assert lag is not None
    assert group is not None
    needed = -(-lag.messages // scaling.messages_per_member)
    if not desired.is_queue:
        needed = min(needed, _count_partitions(desired, actual))
    elif not group.committed:
        needed = max(needed, 1)
    return min(max(needed, scaling.min), scaling.max)


def _count_partitions(desired: DesiredGroup, actual: ActualGroupState) -> int:
    """Partitions of the group's topics: a consumer more than these would read nothing."""
    group, seen = actual.group, actual.seen
    assert group is not None
    assert seen is not None
    topics = {*desired.spec.topics, *(where.topic for where in group.committed)}
    return sum(len(seen.partitions.get(topic, ())) for topic in topics)
