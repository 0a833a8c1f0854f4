"""ConsumerGroups as they are wanted and as brokers show them, and what decisions say of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from odradek.client.results import GroupMember
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import ActualGroup, GroupsSeen, PartitionEnds
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    DesiredGroup,
    GroupDecision,
    Note,
)
from odradek_operator.resources.consumer_group import ConsumerGroupSpec, ConsumerGroupStatus
from odradek_operator.resources.structure import parse

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
MEMBER = GroupMember("m-1", None, "app", "/10.0.0.7", (A, B))
TO_EARLIEST: dict[str, Any] = {"id": "one", "to": {"at": "Earliest"}}
COMMITTED = {A: 90, B: 40}


def wanted(status: ConsumerGroupStatus | None = None, **spec: Any) -> DesiredGroup:
    meta = {key: spec.pop(key) for key in ("is_paused", "is_deleted", "has_finalizer") if key in spec}
    return DesiredGroup(
        name="billing",
        uid="me",
        generation=1,
        spec=parse(ConsumerGroupSpec, {"cluster": "main", "topics": ["orders"], **spec}),
        status=status or ConsumerGroupStatus(),
        **meta,
    )


def group(
    *, members: int = 0, committed: dict[TopicPartition, int] | None = None, **more: Any
) -> ActualGroup:
    known: dict[str, Any] = {
        "state": "Stable" if members else "Empty",
        "type": "classic",
        "coordinator": 1,
        **more,
    }
    return ActualGroup(
        group_id="billing",
        members=tuple(replace(MEMBER, member_id=f"m-{number}") for number in range(members)),
        committed=committed or {},
        **known,
    )


def there(
    found: ActualGroup, *, end: int = 100, age_seconds: float | None = None, **more: Any
) -> ActualGroupState:
    times = (
        {}
        if age_seconds is None
        else {("billing", where): NOW_MS - round(age_seconds * 1000) for where in (A, B)}
    )
    seen = GroupsSeen(
        groups={"billing": found},
        partitions=more.pop("partitions", {"orders": (0, 1)}),
        ends={A: PartitionEnds(10, end), B: PartitionEnds(0, end)},
        record_times_ms=times,
    )
    return ActualGroupState(now=more.pop("now", NOW), group=found, seen=seen, **more)


def stated(decision: GroupDecision, type: str = "Ready") -> tuple[str, str]:
    (found,) = [one for one in decision.conditions if one.type == type]
    return str(found.status), found.reason


def event_reasons(decision: GroupDecision) -> list[str]:
    return [one.reason for one in decision.events]


def noted(decision: GroupDecision) -> ConsumerGroupStatus:
    (step,) = decision.actions
    assert isinstance(step, Note)
    return step.status
