"""The status of a group that was seen: members, and how far behind they are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from odradek_operator.gateways.group_values import ActualGroup, GroupsSeen
from odradek_operator.gateways.groups import next_offsets
from odradek_operator.reconcilers.consumer_group.facts import ActualGroupState, DesiredGroup
from odradek_operator.reconcilers.consumer_group.scaling import measure_scaling
from odradek_operator.reconcilers.consumer_group.settings import describe_dead_letters, list_made_settings
from odradek_operator.resources.conditions import format_timestamp
from odradek_operator.resources.consumer_group import (
    ASSIGNED_SHOWN_MAX,
    MEMBERS_SHOWN_MAX,
    PARTITIONS_SHOWN_MAX,
    ConsumerGroupStatus,
    LagObjective,
    LagStatus,
    MemberStatus,
    PartitionLag,
)


def group_status(desired: DesiredGroup, actual: ActualGroupState) -> ConsumerGroupStatus:
    """The status of the group, which this resource governs. `measured_at` moves when something else does."""
    group, seen, before = actual.group, actual.seen, desired.status
    assert group is not None
    assert seen is not None
    rows = partition_lags(group, desired.spec.topics, seen, now=actual.now)
    behind = [row for row in rows if row.messages]
    ages = [row.seconds for row in behind]
    known = [age for age in ages if age is not None]
    lag = LagStatus(
        messages=sum(row.messages for row in behind),
        # Where one age is not known, the oldest is not.
        seconds=max(known, default=0.0) if len(known) == len(ages) else None,
        partitions_behind=len(behind),
    )
    if desired.spec.lag is not None:
        lag = replace(lag, within_objective=is_within(desired.spec.lag, lag.messages, ages))
    workload = actual.workload
    status = replace(
        before,
        group_id=group.group_id,
        owner_uid=desired.uid,
        state=group.state or "Unknown",
        type=group.type or None,
        coordinator=group.coordinator,
        replicas=len(group.members),
        selector=None if workload is None else workload.selector,
        members=_members(group),
        settings=list_made_settings(desired, group),
        dead_letters=describe_dead_letters(desired, seen),
        lag=lag,
        partitions=tuple(
            sorted(rows, key=lambda row: (-row.messages, row.topic, row.partition))[:PARTITIONS_SHOWN_MAX]
        ),
    )
    status = replace(status, scaling=measure_scaling(desired, actual, status))
    return status if status == before else replace(status, measured_at=format_timestamp(actual.now))


def partition_lags(
    group: ActualGroup, topics: tuple[str, ...], seen: GroupsSeen, *, now: datetime
) -> list[PartitionLag]:
    """Every partition that the group has committed in or is to read, with how far behind it is there."""
    rows = []
    for where, next_offset in next_offsets(group, topics, seen).items():
        messages = max(0, seen.ends[where].end - next_offset)
        if group.is_queue:
            messages = min(messages, group.undone.get(where, messages))
        written_ms = seen.record_times_ms.get((group.group_id, where))
        seconds: float | None = 0.0
        if messages:
            seconds = None if written_ms is None else max(0.0, round(now.timestamp() - written_ms / 1000, 1))
        rows.append(
            PartitionLag(
                topic=where.topic,
                partition=where.partition,
                committed=group.committed.get(where),
                end=seen.ends[where].end,
                messages=messages,
                seconds=seconds,
            )
        )
    return rows


def is_within(objective: LagObjective, messages: int, ages: Sequence[float | None]) -> bool | None:
    """Whether the lag is within what is wanted; `ages` are of the partitions that are behind. None when an age that
    counts is not known.
    """
    if objective.messages is not None and messages > objective.messages:
        return False
    if objective.seconds is None:
        return True
    if any(age is not None and age > objective.seconds for age in ages):
        return False
    return None if None in ages else True


def _members(group: ActualGroup) -> tuple[MemberStatus, ...]:
    return tuple(
        MemberStatus(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id or None,
            host=member.client_host.removeprefix("/") or None,
            assigned=len(member.assignment),
            assignment=tuple(str(where) for where in sorted(member.assignment)[:ASSIGNED_SHOWN_MAX]),
        )
        for member in sorted(group.members, key=lambda member: member.member_id)[:MEMBERS_SHOWN_MAX]
    )
