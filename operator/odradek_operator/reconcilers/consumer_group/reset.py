"""A reset of a group's offsets, step by step: a pure function of the wish, the status and the group.

    (new id) --no members--> Applying --offsets set--> Done
             --members----->  Refused | Waiting | Fencing --members gone--> Applying

The status notes each step before it is done: `target` and the snapshot before offsets are set, `fenced` before the
fence is. So an operator that takes over knows what is left, and a reset is made once. The group itself shows whether
offsets were set, even where consumers have read on since (`was_applied`). A fence that is not renewed ends by itself.

The brokers keep the ids of resets with the group, from before offsets are set. A resource may be deleted and applied
again, or edited back to an earlier id. That reset is then `Repeated`, and neither offsets nor snapshot change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime

from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count
from odradek_operator.gateways.group_values import (
    ActualGroup,
    GroupsSeen,
    RememberResets,
    SetFence,
    SetOffsets,
)
from odradek_operator.reconcilers.consumer_group.facts import (
    Action,
    ActualGroupState,
    DesiredGroup,
    Note,
    Offsets,
    Resolve,
)
from odradek_operator.reconcilers.consumer_group.positions import (
    missing_topics,
    offsets_of,
    partitions_of,
    table_of,
    time_of,
)
from odradek_operator.reconcilers.decisions import Event
from odradek_operator.resources.conditions import format_timestamp
from odradek_operator.resources.consumer_group import (
    SNAPSHOT_PARTITIONS_MAX,
    ConsumerGroupStatus,
    GroupReset,
    OffsetSnapshot,
    ResetPhase,
    ResetStatus,
    WhenActive,
)
from odradek_operator.resources.group_positions import ResetAt

FENCE_SECONDS = 120.0
# Renewed when less is left. Longer than any pause between two runs for a group that is being reset.
FENCE_SECONDS_LEFT_MIN = 60.0
FENCING_SECONDS_MAX = 300.0
FENCING_AGAIN_SECONDS = 0.5
WAITING_AGAIN_SECONDS = 5.0
ENDED = (ResetPhase.DONE, ResetPhase.REFUSED, ResetPhase.REPEATED)
# Of each group, in its settings: 4 kB. The oldest is forgotten for a newer one.
RESETS_REMEMBERED_MAX = 256
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next actions, or (without any) the status from here on, and the time of the next look."""

    actions: tuple[Action, ...] = ()
    status: ConsumerGroupStatus | None = None
    events: tuple[Event, ...] = ()
    again_seconds: float | None = None


def next_step(desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup) -> Step | None:
    """The next step of the reset that is wanted or under way; None when there is nothing to do."""
    wish, known = desired.spec.reset, desired.status.reset
    if known is not None and (wish is None or wish.id != known.id or known.phase in ENDED):
        if known.phase not in ENDED:
            why = "it was taken back before it had ended"
            return _end_reset(desired, actual, replace(known, phase=ResetPhase.REFUSED, message=why))
        if known.fenced:
            return _unfence_members(desired, known, group)
        if digest(known.id) not in group.resets:
            return _remember_reset(group, known)
        if wish is None or wish.id == known.id:
            return None
    if wish is None:
        return None
    if known is None or known.id != wish.id:
        if digest(wish.id) in group.resets:
            return _refuse_repeat(desired, actual, wish)
        known = ResetStatus(id=wish.id, phase=ResetPhase.WAITING, started_at=format_timestamp(actual.now))
    if group.is_in_zookeeper:
        why = (
            "the group is kept in ZooKeeper, where its own consumers alone change offsets; use seek of their "
            "ConsumerConnector, and take reset away"
        )
        return _end_reset(desired, actual, replace(known, phase=ResetPhase.REFUSED, message=why))
    if known.phase is ResetPhase.APPLYING and known.target is not None:
        return _apply_reset(desired, actual, group, known)
    if group.members:
        return _handle_members(desired, actual, group, known, wish)
    return _prepare_reset(desired, actual, group, known, wish)


# --- members -------------------------------------------------------------------------------------------------------


def _handle_members(
    desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup, known: ResetStatus, wish: GroupReset
) -> Step:
    members = count(len(group.members), "member")
    if wish.when_active is WhenActive.REFUSE:
        why = (
            f"the group has {members}; stop its consumers, or set whenActive to Wait or Fence, and give the "
            "reset a new id"
        )
        return _end_reset(desired, actual, replace(known, phase=ResetPhase.REFUSED, message=why))
    if wish.when_active is WhenActive.WAIT:
        message = f"waits for {members} to leave; stop the group's consumers"
        waiting = replace(known, phase=ResetPhase.WAITING, message=message)
        return Step(status=replace(desired.status, reset=waiting), again_seconds=WAITING_AGAIN_SECONDS)
    return _fence_members(desired, actual, group, known)


def _fence_members(
    desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup, known: ResetStatus
) -> Step:
    if _seconds_since(known.started_at, actual.now) > FENCING_SECONDS_MAX:
        why = (
            f"after {FENCING_SECONDS_MAX:g} s the group still had {count(len(group.members), 'member')}. Look at "
            f"the log of broker {group.coordinator}, which coordinates the group, and give the reset a new id"
        )
        return _end_reset(desired, actual, replace(known, phase=ResetPhase.REFUSED, message=why))
    if not known.fenced:
        message = f"puts out {count(len(group.members), 'member')}; clients rejoin by themselves"
        # An applying reset keeps its target: only its fence had run out.
        phase = known.phase if known.phase is ResetPhase.APPLYING else ResetPhase.FENCING
        return Step(
            actions=(
                Note(
                    replace(desired.status, reset=replace(known, phase=phase, fenced=True, message=message))
                ),
            )
        )
    now_ms = round(actual.now.timestamp() * 1000)
    if group.fenced_until_ms < now_ms + FENCE_SECONDS_LEFT_MIN * 1000:
        return Step(actions=(SetFence(group.group_id, now_ms + round(FENCE_SECONDS * 1000)),))
    return Step(status=replace(desired.status, reset=known), again_seconds=FENCING_AGAIN_SECONDS)


def _unfence_members(desired: DesiredGroup, known: ResetStatus, group: ActualGroup) -> Step:
    if group.fenced_until_ms:
        return Step(actions=(SetFence(group.group_id, 0),))
    return Step(actions=(Note(replace(desired.status, reset=replace(known, fenced=False))),))


# --- offsets -------------------------------------------------------------------------------------------------------


def _prepare_reset(
    desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup, known: ResetStatus, wish: GroupReset
) -> Step:
    """The group is empty: find out where it is to continue, and write that down with where it was."""
    assert actual.seen is not None
    topics = wish.topics or desired.spec.topics or sorted({where.topic for where in group.committed})
    refused = replace(known, phase=ResetPhase.REFUSED)
    missing = missing_topics(topics, actual.seen)
    if missing:
        why = f"there is no topic {', '.join(missing)}; correct topics, and give the reset a new id"
        return _end_reset(desired, actual, replace(refused, message=why))
    partitions = partitions_of(topics, actual.seen)
    if not partitions:
        why = "the group has committed nothing and no topics are named; name topics, and give the reset a new id"
        return _end_reset(desired, actual, replace(refused, message=why))
    if len(partitions) > SNAPSHOT_PARTITIONS_MAX:
        why = (
            f"{len(partitions)} partitions are more than the {SNAPSHOT_PARTITIONS_MAX} whose offsets can be kept for "
            "an undo. Reset some topics at a time, each with a new id"
        )
        return _end_reset(desired, actual, replace(refused, message=why))
    target = _snapshot_target(desired, partitions) if wish.to.at is ResetAt.SNAPSHOT else actual.resolved
    if target is None:
        try:
            when = time_of(wish.to, actual.now)
        except ValueError as problem:
            why = f"{problem}; correct it, and give the reset a new id"
            return _end_reset(desired, actual, replace(refused, message=why))
        return Step(actions=(Resolve(dict.fromkeys(partitions, when)),))
    if not target:
        why = "there is no snapshot of these topics to go back to; the last reset made none"
        return _end_reset(desired, actual, replace(refused, message=why))
    before = {where: _place_of(where, group, actual.seen) for where in target if where in group.committed}
    snapshot = OffsetSnapshot(
        reset_id=wish.id, taken_at=format_timestamp(actual.now), offsets=table_of(before)
    )
    applying = replace(known, phase=ResetPhase.APPLYING, target=table_of(target), message="")
    return Step(actions=(Note(replace(desired.status, reset=applying, snapshot=snapshot)),))


def _place_of(where: TopicPartition, group: ActualGroup, seen: GroupsSeen) -> int:
    """Where the group is: a queue without undone records is at the end, and else at its stored start."""
    if group.undone.get(where) == 0 and where in seen.ends:
        return max(group.committed[where], seen.ends[where].end)
    return group.committed[where]


def _snapshot_target(desired: DesiredGroup, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    if desired.status.snapshot is None:
        return {}
    kept = offsets_of(desired.status.snapshot.offsets)
    return {where: kept[where] for where in partitions if where in kept}


def _apply_reset(
    desired: DesiredGroup, actual: ActualGroupState, group: ActualGroup, known: ResetStatus
) -> Step:
    assert known.target is not None
    target = offsets_of(known.target)
    if is_set(target, group, actual.seen):
        return _complete_reset(desired, actual, known, len(target))
    if not group.members:
        if digest(known.id) not in group.resets:
            return _remember_reset(group, known)
        return Step(actions=(SetOffsets(group.group_id, target, is_queue=desired.is_queue),))
    snapshot = {} if desired.status.snapshot is None else offsets_of(desired.status.snapshot.offsets)
    # A queue's offsets do not show it. Set once more, they bring records a second time, and skip none.
    if not group.is_queue and was_applied(target, before=snapshot, now=group.committed):
        # The consumers that came back have continued from there.
        return _complete_reset(desired, actual, known, len(target))
    wish = desired.spec.reset
    assert wish is not None
    return _handle_members(desired, actual, group, known, wish)


def is_set(target: Offsets, group: ActualGroup, seen: GroupsSeen | None) -> bool:
    """Whether the group is at these offsets.

    A queue is at an offset when also nothing after it is done: its stored start may lie before records that are.
    """
    if any(group.committed.get(where) != offset for where, offset in target.items()):
        return False
    if not group.is_queue or seen is None:
        return True
    return all(
        group.undone[where] >= seen.ends[where].end - offset
        for where, offset in target.items()
        if where in group.undone and where in seen.ends
    )


def was_applied(target: Offsets, *, before: Offsets, now: Offsets) -> bool:
    """Whether offsets that are neither as they were nor as they were to be show that they had been set.

    Consumers only go forward, so where one is behind where it had been it was set back. Where the target lies ahead
    of all, it is the same whether they were set or have come there by themselves.
    """
    back = [where for where, offset in target.items() if offset < before.get(where, -1)]
    if back:
        return any(now.get(where, -1) < before[where] for where in back)
    return all(now.get(where, -1) >= offset for where, offset in target.items())


def _complete_reset(
    desired: DesiredGroup, actual: ActualGroupState, known: ResetStatus, partitions: int
) -> Step:
    what = f"offsets of {count(partitions, 'partition')} were set"
    message = f"{what}; to: {{at: Snapshot}} with a new id takes that back"
    done = replace(known, phase=ResetPhase.DONE, message=message, target=None)
    return _end_reset(desired, actual, done)


def _end_reset(desired: DesiredGroup, actual: ActualGroupState, known: ResetStatus) -> Step:
    ended = replace(known, finished_at=format_timestamp(actual.now))
    is_done = ended.phase is ResetPhase.DONE
    what = f"the reset {ended.id} {'is made' if is_done else 'is refused'}: {ended.message}"
    event = Event("OffsetsReset" if is_done else "ResetRefused", what, is_warning=not is_done)
    return Step(actions=(Note(replace(desired.status, reset=ended)),), events=(event,))


def digest(reset_id: str) -> str:
    """The stored form of an id: ids may hold anything, and settings are short."""
    return hashlib.sha256(reset_id.encode()).hexdigest()[:_DIGEST_LENGTH]


def _remember_reset(group: ActualGroup, known: ResetStatus) -> Step:
    digests = (*group.resets, digest(known.id))[-RESETS_REMEMBERED_MAX:]
    return Step(actions=(RememberResets(group.group_id, digests),))


def _refuse_repeat(desired: DesiredGroup, actual: ActualGroupState, wish: GroupReset) -> Step:
    message = "a reset of this id has ended before, and is not made twice; give it a new id to have it made"
    known = ResetStatus(
        id=wish.id, phase=ResetPhase.REPEATED, message=message, finished_at=format_timestamp(actual.now)
    )
    event = Event("ResetNotRepeated", f"the reset {wish.id} is not made: {message}")
    return Step(actions=(Note(replace(desired.status, reset=known)),), events=(event,))


def _seconds_since(moment: str | None, now: datetime) -> float:
    return 0.0 if moment is None else (now - datetime.fromisoformat(moment)).total_seconds()
