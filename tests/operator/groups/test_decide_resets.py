"""What is decided about the resets of one ConsumerGroup, from the note before it to the end of a fence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from odradek.client.admin.logs import EARLIEST
from odradek_operator.gateways.group_values import RememberResets, SetFence, SetOffsets
from odradek_operator.reconcilers.consumer_group.decide import decide
from odradek_operator.reconcilers.consumer_group.facts import (
    ActualGroupState,
    DesiredGroup,
    GroupDecision,
    Note,
    Resolve,
)
from odradek_operator.reconcilers.consumer_group.reset import (
    FENCING_SECONDS_MAX,
    RESETS_REMEMBERED_MAX,
    digest,
)
from odradek_operator.resources.consumer_group import ResetPhase
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

ONE = (digest("one"),)


def follow(desired: DesiredGroup, decision: GroupDecision) -> DesiredGroup:
    for step in decision.actions:
        if isinstance(step, Note):
            desired = replace(desired, status=step.status)
    return desired


def test_a_reset_notes_its_target_and_snapshot_before_it_sets_offsets() -> None:
    desired = wanted(reset=TO_EARLIEST)
    actual = there(group(committed=COMMITTED))
    assert decide(desired, actual).actions == (Resolve({A: EARLIEST, B: EARLIEST}),)
    planned = decide(desired, replace(actual, resolved={A: 10, B: 0}))
    status = noted(planned)
    assert status.reset is not None
    assert (status.reset.phase, status.reset.target) == (ResetPhase.APPLYING, {"orders": {"0": 10, "1": 0}})
    assert status.snapshot is not None
    assert status.snapshot.offsets == {"orders": {"0": 90, "1": 40}}
    desired = follow(desired, planned)
    # Remembered on the brokers before offsets are set, whatever becomes of the resource.
    assert decide(desired, actual).actions == (RememberResets("billing", (digest("one"),)),)
    actual = there(group(committed=COMMITTED, resets=ONE))
    assert decide(desired, actual).actions == (SetOffsets("billing", {A: 10, B: 0}),)
    done = decide(desired, there(group(committed={A: 10, B: 0}, resets=ONE)))
    assert event_reasons(done) == ["OffsetsReset"]
    desired = follow(desired, done)
    over = decide(desired, there(group(members=1, committed={A: 77, B: 66}, resets=ONE)))
    assert over.actions == (), "one id, one reset"
    assert stated(over, "Reset") == ("True", "Done")


def test_a_reset_is_not_repeated_after_consumers_have_continued() -> None:
    desired = wanted(reset=TO_EARLIEST)
    desired = follow(desired, decide(desired, there(group(committed=COMMITTED), resolved={A: 10, B: 0})))
    went_on = decide(desired, there(group(members=1, committed={A: 12, B: 0})))
    reset = noted(went_on).reset
    assert reset is not None
    assert reset.phase is ResetPhase.DONE


def test_undo_goes_back_to_the_snapshot_and_may_itself_be_undone() -> None:
    desired = wanted(reset=TO_EARLIEST)
    for actual in (
        there(group(committed=COMMITTED), resolved={A: 10, B: 0}),
        there(group(committed={A: 10, B: 0})),
    ):
        desired = follow(desired, decide(desired, actual))
    undo = wanted(desired.status, reset={"id": "two", "to": {"at": "Snapshot"}})
    planned = noted(decide(undo, there(group(committed={A: 30, B: 30}, resets=ONE))))
    assert planned.reset is not None
    assert planned.reset.target == {"orders": {"0": 90, "1": 40}}
    assert planned.snapshot is not None
    assert planned.snapshot.offsets == {"orders": {"0": 30, "1": 30}}


@pytest.mark.parametrize(
    ("reset", "actual", "why"),
    [
        (TO_EARLIEST, there(group(members=2, committed=COMMITTED)), "the group has 2 members"),
        ({"id": "x", "to": {"at": "Snapshot"}}, there(group(committed=COMMITTED)), "no snapshot"),
        ({**TO_EARLIEST, "topics": ["nope"]}, there(group()), "there is no topic nope"),
        ({"id": "x", "to": {"at": "Timestamp", "timestamp": "soon"}}, there(group()), "soon"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_once_and_reported(
    reset: dict[str, Any], actual: ActualGroupState, why: str
) -> None:
    decision = decide(wanted(reset=reset), actual)
    status = noted(decision)
    assert status.reset is not None
    assert status.reset.phase is ResetPhase.REFUSED
    assert why in status.reset.message
    assert "new id" in status.reset.message or "snapshot" in status.reset.message
    assert event_reasons(decision) == ["ResetRefused"]
    assert actual.group is not None
    remembered = replace(actual.group, resets=(digest(reset["id"]),))
    after = decide(wanted(status, reset=reset), replace(actual, group=remembered))
    assert (after.actions, stated(after, "Reset")) == ((), ("False", "Refused"))


def test_a_patient_reset_waits_for_members_to_leave() -> None:
    desired = wanted(reset={**TO_EARLIEST, "whenActive": "Wait"})
    waiting = decide(desired, there(group(members=1, committed=COMMITTED)))
    assert waiting.actions == ()
    assert stated(waiting, "Reset") == ("Unknown", "Waiting")
    assert waiting.again_seconds == 5
    assert waiting.status is not None
    on = decide(replace(desired, status=waiting.status), there(group(committed=COMMITTED)))
    assert isinstance(on.actions[0], Resolve)


def test_a_fencing_reset_puts_members_out_and_lets_them_in_again() -> None:
    desired = wanted(reset={**TO_EARLIEST, "whenActive": "Fence"})
    full = group(members=2, committed=COMMITTED)
    planned = decide(desired, there(full))
    reset = noted(planned).reset
    assert reset is not None
    assert (reset.phase, reset.fenced) == (ResetPhase.FENCING, True)
    desired = follow(desired, planned)
    until_ms = NOW_MS + 120_000
    assert decide(desired, there(full)).actions == (SetFence("billing", until_ms),)
    fenced = replace(full, fenced_until_ms=until_ms)
    going = decide(desired, there(fenced))
    assert (going.actions, going.again_seconds) == ((), 0.5)
    renewed = decide(desired, there(fenced, now=NOW + timedelta(seconds=70)))
    assert renewed.actions == (SetFence("billing", until_ms + 70_000),)
    empty = replace(fenced, members=(), state="Empty", resets=ONE)
    desired = follow(desired, decide(desired, there(empty, resolved={A: 10, B: 0})))
    assert decide(desired, there(empty)).actions == (SetOffsets("billing", {A: 10, B: 0}),)
    at_target = replace(empty, committed={A: 10, B: 0})
    done = decide(desired, there(at_target))
    desired = follow(desired, done)
    assert desired.status.reset is not None
    assert (desired.status.reset.phase, desired.status.reset.fenced) == (ResetPhase.DONE, True)
    assert decide(desired, there(at_target)).actions == (SetFence("billing", 0),)
    desired = follow(desired, decide(desired, there(replace(at_target, fenced_until_ms=0))))
    assert desired.status.reset is not None
    assert not desired.status.reset.fenced
    assert decide(desired, there(replace(full, committed={A: 11, B: 1}, resets=ONE))).actions == ()


def test_a_fence_that_removes_no_member_is_given_up_and_taken_away() -> None:
    desired = wanted(reset={**TO_EARLIEST, "whenActive": "Fence"})
    stuck = group(members=1, committed=COMMITTED, fenced_until_ms=NOW_MS + 999_999_999)
    desired = follow(desired, decide(desired, there(stuck)))
    late = NOW + timedelta(seconds=FENCING_SECONDS_MAX + 1)
    given_up = decide(desired, there(stuck, now=late))
    reset = noted(given_up).reset
    assert reset is not None
    assert reset.phase is ResetPhase.REFUSED
    desired = follow(desired, given_up)
    assert decide(desired, there(stuck, now=late)).actions == (SetFence("billing", 0),)


def test_a_reset_that_is_taken_back_leaves_no_fence() -> None:
    desired = wanted(reset={**TO_EARLIEST, "whenActive": "Fence"})
    full = group(members=2, committed=COMMITTED, fenced_until_ms=NOW_MS + 120_000)
    desired = follow(desired, decide(desired, there(full)))
    without = wanted(desired.status)
    without = follow(without, decide(without, there(full)))
    assert without.status.reset is not None
    assert without.status.reset.phase is ResetPhase.REFUSED
    assert decide(without, there(full)).actions == (SetFence("billing", 0),)


def test_an_earlier_id_is_not_made_again_and_overwrites_no_snapshot() -> None:
    first = noted(
        decide(wanted(reset=TO_EARLIEST), there(group(committed=COMMITTED), resolved={A: 10, B: 0}))
    )
    assert first.reset is not None
    second = replace(first, reset=replace(first.reset, id="two", phase=ResetPhase.DONE, target=None))
    both = group(committed={A: 10, B: 0}, resets=(digest("one"), digest("two")))
    # A rollback of the release brings the first id again.
    reverted = decide(wanted(second, reset=TO_EARLIEST), there(both))
    status = noted(reverted)
    assert status.reset is not None and status.snapshot == second.snapshot
    assert status.reset.phase is ResetPhase.REPEATED and "new id" in status.reset.message
    assert event_reasons(reverted) == ["ResetNotRepeated"]
    over = decide(wanted(status, reset=TO_EARLIEST), there(both))
    assert over.actions == () and stated(over, "Reset") == ("True", "Repeated")


def test_a_resource_that_is_deleted_and_applied_again_makes_no_reset_twice() -> None:
    again = decide(wanted(reset=TO_EARLIEST), there(group(committed={A: 77, B: 66}, resets=ONE)))
    status = noted(again)
    assert status.reset is not None and status.reset.phase is ResetPhase.REPEATED
    assert status.snapshot is None


def test_as_many_ids_are_remembered_as_there_is_room_for() -> None:
    many = tuple(digest(f"id-{number}") for number in range(RESETS_REMEMBERED_MAX))
    desired = wanted(reset=TO_EARLIEST)
    found = group(committed=COMMITTED, resets=many)
    desired = follow(desired, decide(desired, there(found, resolved={A: 10, B: 0})))
    (step,) = decide(desired, there(found)).actions
    assert step == RememberResets("billing", (*many[1:], digest("one")))


def test_a_group_in_zookeeper_is_shown_and_not_changed() -> None:
    group_there = group(committed=COMMITTED, type="zookeeper", resets=ONE)
    assert decide(wanted(reset=TO_EARLIEST), there(group(committed=COMMITTED, type="zookeeper"))).events
    decision = decide(wanted(), there(group_there))
    assert decision.actions == ()
    assert stated(decision, "Ready") == ("True", "Governed")
    refused = decide(wanted(reset={**TO_EARLIEST, "id": "two"}), there(group_there))
    assert event_reasons(refused) == ["ResetRefused"]
    assert not [one for one in refused.actions if isinstance(one, SetOffsets | SetFence)]
    begun = decide(wanted(initialPosition={"at": "Earliest"}), there(group(type="zookeeper", members=1)))
    assert stated(begun, "Started") == ("False", "InZooKeeper")
