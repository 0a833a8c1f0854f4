"""A reset is made once, wherever the operator is killed, and whatever consumers do at the same time.

The decided steps are taken on a group in memory, where consumers join, leave and read at any moment. It has the rules
of its coordinator: no member joins a fenced group, and only members set offsets of a group that has members.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.results import GroupMember
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import (
    ActualGroup,
    GroupsSeen,
    PartitionEnds,
    RememberResets,
    SetFence,
    SetOffsets,
)
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import ActualGroupState, DesiredGroup, Note, Resolve
from odradek_operator.resources.consumer_group import ConsumerGroupSpec, ConsumerGroupStatus, ResetPhase
from odradek_operator.resources.structure import parse
from tests.support.examples import examples

pytestmark = pytest.mark.thorough

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
END = 1000
MEMBER = GroupMember("m", None, "app", "/h", (A, B))


class Group:
    """A group, its coordinator and its consumers, and how often its offsets were set."""

    def __init__(self, committed: dict[TopicPartition, int]) -> None:
        self.committed = dict(committed)
        self.has_member = False
        self.fenced_until = datetime.min.replace(tzinfo=UTC)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.times_set = 0
        self.resets: tuple[str, ...] = ()

    def seen(self) -> ActualGroup:
        is_fenced = self.fenced_until > datetime.min.replace(tzinfo=UTC)
        return ActualGroup(
            group_id="g",
            state="Stable" if self.has_member else "Empty",
            members=(MEMBER,) if self.has_member else (),
            committed=dict(self.committed),
            fenced_until_ms=round(self.fenced_until.timestamp() * 1000) if is_fenced else 0,
            resets=self.resets,
        )

    def join(self) -> None:
        self.has_member = self.has_member or self.now >= self.fenced_until

    def leave(self) -> None:
        self.has_member = False

    def read(self) -> None:
        if self.has_member:
            self.committed = {where: min(END, offset + 7) for where, offset in self.committed.items()}

    def take(self, step: SetOffsets | SetFence | RememberResets) -> bool:
        """False when the coordinator refuses it."""
        if isinstance(step, RememberResets):
            self.resets = step.digests
            return True
        if isinstance(step, SetFence):
            self.fenced_until = datetime.fromtimestamp(step.until_ms / 1000, UTC)
            if not step.until_ms:
                self.fenced_until = datetime.min.replace(tzinfo=UTC)
            self.has_member = self.has_member and self.now >= self.fenced_until
            return True
        if self.has_member:
            return False
        self.committed = dict(step.offsets)
        self.times_set += 1
        return True


CHANCE = st.sampled_from(["join", "leave", "read", "nothing", "a minute"])


def run_once(
    desired: DesiredGroup, group: Group, target: dict[TopicPartition, int], draw: st.DataObject
) -> ConsumerGroupStatus:
    """One run of the operator, which may be killed after any step; the status that it leaves behind."""
    resolved = None
    for _ in range(30):
        actual = ActualGroupState(
            now=group.now,
            group=group.seen(),
            seen=GroupsSeen(
                groups={}, partitions={"t": (0, 1)}, ends={A: PartitionEnds(0, END), B: PartitionEnds(0, END)}
            ),
            resolved=resolved,
        )
        decision = decide(desired, actual)
        if not decision.actions:
            assert decision.status is not None
            return decision.status
        for step in decision.actions:
            if draw.draw(st.integers(0, 9)) == 0:
                return desired.status
            if isinstance(step, Resolve):
                resolved = target
            elif isinstance(step, Note):
                desired, resolved = replace(desired, status=step.status), None
            else:
                assert isinstance(step, SetOffsets | SetFence | RememberResets)
                resolved = None
                if not group.take(step):
                    break
            happen(group, draw)
    raise AssertionError("the run has no end")


def happen(group: Group, draw: st.DataObject) -> None:
    match draw.draw(CHANCE):
        case "join":
            group.join()
        case "leave":
            group.leave()
        case "read":
            group.read()
        case "a minute":
            group.now += timedelta(seconds=draw.draw(st.integers(1, 90)))


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_reset_that_is_done_was_made_and_a_done_one_is_not_made_again(draw: st.DataObject) -> None:
    when_active = draw.draw(st.sampled_from(["Refuse", "Wait", "Fence"]))
    start = {A: draw.draw(st.integers(100, 500)), B: draw.draw(st.integers(100, 500))}
    target = {A: draw.draw(st.integers(0, 600)), B: draw.draw(st.integers(0, 600))}
    group = Group(start)
    reset = {
        "id": "one",
        "to": {"at": "Timestamp", "timestamp": "2025-12-31T00:00:00Z"},
        "whenActive": when_active,
    }
    spec = parse(ConsumerGroupSpec, {"cluster": "main", "topics": ["t"], "reset": reset})
    status = ConsumerGroupStatus()
    for _ in range(40):
        happen(group, draw)
        status = run_once(
            DesiredGroup(name="g", uid="me", generation=1, spec=spec, status=status), group, target, draw
        )
        known = status.reset
        if known is not None and known.phase is ResetPhase.DONE:
            break
    else:
        return  # consumers were in the way all the while, or it was refused
    assert group.times_set >= 1 or all(group.committed[where] >= offset for where, offset in target.items())
    times_set = group.times_set
    for _ in range(5):
        happen(group, draw)
        status = run_once(
            DesiredGroup(name="g", uid="me", generation=1, spec=spec, status=status), group, target, draw
        )
    assert group.times_set == times_set, "one id, one reset"
    # The resource is deleted at any moment, and applied again.
    for _ in range(5):
        happen(group, draw)
        status = run_once(
            DesiredGroup(name="g", uid="another", generation=1, spec=spec, status=ConsumerGroupStatus()),
            group,
            target,
            draw,
        )
    assert group.times_set == times_set, "one id, one reset, in whichever resource it stands"
    group.now += timedelta(minutes=10)
    group.join()
    assert group.has_member, "no fence is for ever"
