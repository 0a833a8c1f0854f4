"""How records in flight end: members acknowledge or release them, locks expire, writes succeed or fail.

    accept  acquired -> acknowledged
    gap     acquired -> archived          offsets of no record: control batches, what compaction removed
    release acquired -> available         archived after the last delivery that the group allows
    reject  acquired -> archived
    renew   acquired, with a new lock

Where the group has a dead-letter topic, records that are rejected or delivered too often are `archiving` until their
dead letters are written (KIP-1191).

What a member asks for takes effect at once, and counts once it is stored. Until then its runs have `before`, so that no
other member acquires or acknowledges them. When the write fails, they are as before, or available where their lock has
ended. An expired lock counts whether or not that is stored, as in Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from odradek.broker.share_states.states import StateRange
from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.runs import (
    NO_LOCK,
    NO_MEMBER,
    TERMINAL,
    Before,
    InFlightBatch,
    RecordRun,
    RecordState,
)
from odradek.foundation.errors import InvalidRecordState, InvalidRequest
from odradek.foundation.named_tuple import NamedTuple


class AcknowledgeType:
    """What a member says of a record, by its number in Kafka."""

    GAP: Final = 0
    ACCEPT: Final = 1
    RELEASE: Final = 2
    REJECT: Final = 3
    RENEW: Final = 4


_STATES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}

# Types of one batch that are applied without a pass over what they split.
_CUTS_ONE_BY_ONE_MAX: Final = 8

_NOT_ACQUIRED: Final = "The records cannot be acknowledged: they are not acquired."
_UNDER_WAY: Final = "The record state is invalid. The acknowledgement of delivery could not be completed."


class AcknowledgedBatch(NamedTuple):
    """Offsets that a member acknowledges: with one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class DeliveryRules(NamedTuple):
    """What the group allows."""

    delivery_count_max: int
    has_dead_letters: bool = False
    may_renew: bool = True


class DeadLetter(NamedTuple):
    """Records that go to the dead-letter topic before they are archived."""

    run: RecordRun
    first: int
    last: int
    delivery_count: int
    is_rejected: bool
    """Whether a member rejected them; else they were delivered too often."""


class PendingChange(NamedTuple):
    """What is to be stored. `runs` wait for it; `states` are what they become, sorted by offsets."""

    runs: list[RecordRun]
    states: list[StateRange]
    dead_letters: list[DeadLetter]

    @property
    def is_empty(self) -> bool:
        return not self.states


def acknowledge(
    in_flight: InFlight,
    member: str,
    batches: Iterable[AcknowledgedBatch],
    rules: DeliveryRules,
    *,
    locked_until: float,
) -> PendingChange:
    """Acknowledge all of `batches`, or raise and change nothing but locks.

    Raises InvalidRecordState for records that the member does not have, InvalidRequest for those that were never
    acquired.
    """
    change = _Changing(in_flight, rules)
    try:
        for batch in batches:
            for run, kind in _find_runs(in_flight, batch):
                _check_owner(run, member)
                change.acknowledge(run, kind, locked_until)
    except Exception:
        # As before in every case: a lock that has ended meets its timer.
        roll_back(in_flight, change.build(), now=-math.inf)
        raise
    return change.build()


def release(in_flight: InFlight, member: str, rules: DeliveryRules) -> PendingChange:
    """Release what the member has: its session is over."""
    change = _Changing(in_flight, rules)
    for run in list(in_flight.runs()):
        if run.is_held and run.member == member:
            change.become(run, RecordState.AVAILABLE)
    return change.build()


def expire(in_flight: InFlight, rules: DeliveryRules, *, now: float) -> PendingChange:
    """End the locks whose time is over. Records whose change is under way wait for it."""
    change = _Changing(in_flight, rules)
    for run in in_flight.take_expired(now):
        change.become(run, RecordState.AVAILABLE)
    ended = change.build()
    for run in ended.runs:
        _settle(in_flight, run)
    return ended._replace(runs=[])


def commit(in_flight: InFlight, change: PendingChange) -> None:
    """The change is stored."""
    for run in change.runs:
        _settle(in_flight, run)
    in_flight.move_start()


def _settle(in_flight: InFlight, run: RecordRun) -> None:
    """The change of `run` counts: nothing of what it was before is needed."""
    run.before, run.locked_until = None, NO_LOCK
    if not len(run):
        return  # the log starts behind it now
    if run.state == RecordState.AVAILABLE:
        in_flight.note_available(run.first)
    if run.state != RecordState.ARCHIVING:
        # Those have a copy under way, which knows its run.
        in_flight.join(run)


def roll_back(in_flight: InFlight, change: PendingChange, *, now: float) -> list[DeadLetter]:
    """The change could not be stored. Records whose lock has ended may be dead letters now."""
    letters: list[DeadLetter] = []
    for run in change.runs:
        before, run.before = run.before, None
        assert before is not None, "a change is settled once"
        if not len(run):
            continue
        if run.state in TERMINAL:
            in_flight.delivery_complete_count -= len(run)
        if run.locked_until > now:
            run.state, run.member = before.state, before.member
            in_flight.note_locked(run)
        else:
            run.member, run.locked_until = NO_MEMBER, NO_LOCK
            if run.delivery_count < before.delivery_count_max:
                run.state = RecordState.AVAILABLE
                in_flight.note_available(run.first)
            elif before.has_dead_letters:
                run.state = RecordState.ARCHIVING
                letters.append(_dead_letter(run, is_rejected=False))
                continue  # its letter knows its run
            else:
                in_flight.finish(run, RecordState.ARCHIVED)
        in_flight.join(run)
    in_flight.move_start()
    return letters


def _dead_letter(run: RecordRun, *, is_rejected: bool) -> DeadLetter:
    return DeadLetter(run, run.first, run.last, run.delivery_count, is_rejected)


def find_dead_letters(in_flight: InFlight, *, delivery_count_max: int) -> list[DeadLetter]:
    """The dead letters that a former leader has left: whether it wrote them is not known."""
    return [
        _dead_letter(run, is_rejected=run.delivery_count < delivery_count_max)
        for run in in_flight.runs()
        if run.state == RecordState.ARCHIVING
    ]


def finish_dead_letters(in_flight: InFlight, letters: Iterable[DeadLetter]) -> PendingChange:
    """The dead letters are written, or never will be: archive their records."""
    states: list[StateRange] = []
    for letter in letters:
        run = letter.run
        if len(run):  # else the log starts behind it now
            states.append(StateRange(run.first, run.last, RecordState.ARCHIVED, letter.delivery_count))
            in_flight.finish(run, RecordState.ARCHIVED)
            in_flight.join(run)
    return PendingChange([], join_states(states), [])


class _Changing:
    """A change while it is made."""

    def __init__(self, in_flight: InFlight, rules: DeliveryRules) -> None:
        self._in_flight = in_flight
        self._rules = rules
        self.runs: list[RecordRun] = []
        self.states: list[StateRange] = []
        self.dead_letters: list[DeadLetter] = []

    def acknowledge(self, run: RecordRun, kind: int, locked_until: float) -> None:
        if kind != AcknowledgeType.RENEW:
            state = _STATES.get(kind)
            if state is None:
                raise InvalidRequest(f"There is no acknowledge type {kind}.")
            is_rejected = kind == AcknowledgeType.REJECT
            if is_rejected and self._rules.has_dead_letters:
                state = RecordState.ARCHIVING
            self.become(run, state, is_rejected=is_rejected)
        elif not self._rules.may_renew:
            raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
        else:
            run.locked_until = locked_until
            self._in_flight.note_locked(run)

    def become(self, run: RecordRun, state: int, *, is_rejected: bool = False) -> None:
        """Begin the change of `run`. Records that were delivered too often do not become available again."""
        rules = self._rules
        if state == RecordState.AVAILABLE and run.delivery_count >= rules.delivery_count_max:
            state = RecordState.ARCHIVING if rules.has_dead_letters else RecordState.ARCHIVED
        run.before = Before(
            run.state, run.member, rules.delivery_count_max, has_dead_letters=rules.has_dead_letters
        )
        run.state, run.member = state, NO_MEMBER
        if state in TERMINAL:
            self._in_flight.delivery_complete_count += len(run)
        if state == RecordState.ARCHIVING:
            self.dead_letters.append(_dead_letter(run, is_rejected=is_rejected))
        self.runs.append(run)
        self.states.append(StateRange(run.first, run.last, state, run.delivery_count))

    def build(self) -> PendingChange:
        return PendingChange(self.runs, join_states(self.states), self.dead_letters)


def _find_runs(in_flight: InFlight, batch: AcknowledgedBatch) -> Iterator[tuple[RecordRun, int]]:
    """The runs of the offsets, each with what is said of it. Raises where an offset was never acquired."""
    start_offset = in_flight.start_offset
    if batch.last < start_offset:
        return  # done already
    _require_known(in_flight, batch)
    segments = list(_segments(batch))
    if len(segments) > _CUTS_ONE_BY_ONE_MAX:
        in_flight.split(batch.first, batch.last, [first for first, _, _ in segments])
    for first, last, kind in segments:
        first = max(first, start_offset)
        if first > last:
            continue
        for own, run in list(in_flight.overlapping(first, last)):
            if run.before is not None:
                raise InvalidRecordState(_UNDER_WAY)
            if run.state != RecordState.ACQUIRED:
                raise InvalidRecordState(_NOT_ACQUIRED)
            yield in_flight.cut(own, run, first, last), kind


def _require_known(in_flight: InFlight, batch: AcknowledgedBatch) -> None:
    known: Sequence[InFlightBatch] = in_flight.batches
    index = in_flight.floor(batch.first)
    if index < 0 and batch.first < in_flight.start_offset:
        index = in_flight.floor(in_flight.start_offset)
    if index < 0:
        raise InvalidRecordState("The records to acknowledge are not in flight.")
    if known[index].last < batch.first and in_flight.floor(batch.last) == index:
        raise InvalidRequest("The first offset to acknowledge is past the acquired records.")
    if batch.last > known[in_flight.floor(batch.last)].last:
        raise InvalidRequest("The last offset to acknowledge is past the acquired records.")


def _segments(batch: AcknowledgedBatch) -> Iterator[tuple[int, int, int]]:
    """(first, last, type) of neighbouring offsets of one type."""
    if len(batch.types) == 1:
        yield batch.first, batch.last, batch.types[0]
        return
    first = batch.first
    for kind, same in groupby(batch.types):
        last = first + sum(1 for _ in same) - 1
        yield first, last, kind
        first = last + 1


def _check_owner(run: RecordRun, member: str) -> None:
    if run.member != member:
        raise InvalidRecordState("Another member has acquired the records.")


def join_states(states: Iterable[StateRange]) -> list[StateRange]:
    """The states sorted by offsets; like neighbours become one."""
    joined: list[StateRange] = []
    for state in sorted(states):
        if joined:
            last = joined[-1]
            if last.last_offset + 1 == state.first_offset and last[2:] == state[2:]:
                joined[-1] = last._replace(last_offset=state.last_offset)
                continue
        joined.append(state)
    return joined
