"""What has to hold of a queue under faults, judged from what is left: the log, the letters, and the members' own logs.

- Each record that was acknowledged to its producer is in the log, once.
- Each record of the log was accepted, or is in the dead-letter topic. A poisoned one is never accepted.
- No record is accepted twice, and none that was accepted has a letter or is delivered again.
- No delivery count is above the limit. Each answer that was taken counts: no two have the same count. So a record is
  delivered more often only by deliveries whose answers were lost.

An answer whose response did not arrive may count or not. Two kinds of answers are taken and change nothing, in Kafka
too. An answer is late when its lock had ended, and all up to its record was done since. It is known by its time, or by
its member, which was stopped.

Left out: time. The proof itself waits until the queue says that nothing is left in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.queues.member_log import Answered, MemberEvent, Polled
from tests.queues.records import ACCEPT, POISON, REJECT, RELEASE


class Letter(NamedTuple):
    """One record of the dead-letter topic; `name` is that of the copy which it has."""

    partition: int
    offset: int
    delivery_count: int
    is_rejected: bool
    name: str


class Stop(NamedTuple):
    """When a member was stopped (SIGSTOP)."""

    member: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is left of a run. `written` has the names in the log, by partition and offset."""

    written: Mapping[int, Mapping[int, str]]
    acknowledged: Collection[str]
    members: Mapping[str, Sequence[MemberEvent]]
    letters: Sequence[Letter]
    stops: Sequence[Stop] = ()
    delivery_count_max: int
    lock_seconds: float


class Breach(NamedTuple):
    """One thing that does not hold: its kind, and the record that shows it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(slots=True)
class Figures:
    """How a run went: of records, and of deliveries to members."""

    records: int = 0
    accepted: int = 0
    given_up: int = 0
    deliveries: int = 0
    again: int = 0
    lost_answers: int = 0
    refused_answers: int = 0
    late_answers: int = 0
    letters: int = 0
    letters_twice: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was found."""

    breaches: list[Breach]
    figures: Figures


class _Delivery:
    """One delivery of one record, and what became of its answer: None while no response has arrived."""

    __slots__ = ("answer", "answered_at", "at", "count", "error", "may_be_late", "member")

    def __init__(self, member: str, at: float, count: int, answer: str) -> None:
        self.member = member
        self.at = at
        self.count = count
        self.answer = answer
        self.answered_at: float | None = None
        self.error = ""
        self.may_be_late = False

    @property
    def is_taken(self) -> bool:
        return self.answered_at is not None and not self.error

    @property
    def is_refused(self) -> bool:
        """Whether the answer certainly does not count: with other errors it may have been stored."""
        return "invalidrecordstate" in self.error.lower().replace("_", "")

    def __str__(self) -> str:
        became = "no answer" if self.answered_at is None else self.error or f"taken at {self.answered_at:.3f}"
        return f"{self.member} at {self.at:.3f} as delivery {self.count}: {self.answer}, {became}"


_History = dict[int, list[_Delivery]]


def check(evidence: Evidence) -> Verdict:
    """Everything that does not hold, and figures of the run."""
    judge = _Judge(evidence)
    judge.breaches += _check_writes(evidence)
    letters: dict[int, dict[int, list[Letter]]] = {}
    for letter in evidence.letters:
        letters.setdefault(letter.partition, {}).setdefault(letter.offset, []).append(letter)
    histories = _collect(evidence.members)
    for partition in sorted({*evidence.written, *letters, *histories}):
        judge.check_partition(partition, histories.pop(partition, {}), letters.get(partition, {}))
    judge.figures.letters = len(evidence.letters)
    return Verdict(judge.breaches, judge.figures)


def _check_writes(evidence: Evidence) -> Iterator[Breach]:
    places: dict[str, str] = {}
    for partition, names in evidence.written.items():
        for offset, name in names.items():
            place = f"{partition}:{offset}"
            if name in places:
                yield Breach("record twice in the log", f"{name} is at {places[name]} and {place}")
            places[name] = place
    for name in evidence.acknowledged:
        if name not in places:
            yield Breach("acknowledged record is not in the log", name)


def _collect(members: Mapping[str, Sequence[MemberEvent]]) -> dict[int, _History]:
    """The deliveries of each record, by partition and offset, each with its answer."""
    found: dict[int, _History] = {}
    for member, events in members.items():
        open_deliveries: dict[tuple[int, int], list[_Delivery]] = {}
        for event in events:
            if isinstance(event, Polled):
                for partition, first, last, count in event.runs:
                    history = found.setdefault(partition, {})
                    for offset in range(first, last + 1):
                        place = partition, offset
                        delivery = _Delivery(member, event.at, count, _answer_of(event, place))
                        open_deliveries.setdefault(place, []).append(delivery)
                        history.setdefault(offset, []).append(delivery)
            elif isinstance(event, Answered):
                for partition, first, last in event.ranges:
                    for offset in range(first, last + 1):
                        _settle(open_deliveries.get((partition, offset)), event)
    return found


def _answer_of(event: Polled, place: tuple[int, int]) -> str:
    if place in event.released:
        return RELEASE
    return REJECT if place in event.rejected else ACCEPT


def _settle(waiting: list[_Delivery] | None, event: Answered) -> None:
    """Give a response to one of the deliveries that a member was not answered about.

    One response may refuse an answer and deliver the record again, and clients report the delivery first. So what is
    taken is the newest answer, and what is refused the oldest.
    """
    if waiting:
        answered = waiting.pop(0 if event.error else -1)
        answered.answered_at, answered.error = event.at, event.error


@dataclass(slots=True)
class _Judge:
    evidence: Evidence
    breaches: list[Breach] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def check_partition(
        self, partition: int, history: _History, letters: Mapping[int, Sequence[Letter]]
    ) -> None:
        names = self.evidence.written.get(partition, {})
        for offset in sorted({*history, *letters} - names.keys()):
            self._add("offset without a record", partition, offset, "?", history.get(offset, ()))
        for offset, name in names.items():
            deliveries = history.get(offset, [])
            deliveries.sort(key=lambda one: one.at)
            self._note_late(deliveries, letters.get(offset, ()))
            self._count(deliveries, letters.get(offset, ()))
            self._check_end(partition, offset, name, deliveries, letters.get(offset, ()))
            self._check_answers(partition, offset, name, deliveries)
            for letter in letters.get(offset, ()):
                self._check_letter(letter, name, deliveries)

    def _add(
        self, kind: str, partition: int, offset: int, name: str, deliveries: Sequence[_Delivery]
    ) -> None:
        told = "; ".join(map(str, deliveries)) or "never delivered"
        self.breaches.append(Breach(kind, f"{name} at {partition}:{offset}: {told}"))

    def _count(self, deliveries: Sequence[_Delivery], letters: Sequence[Letter]) -> None:
        figures = self.figures
        figures.records += 1
        figures.given_up += bool(letters)
        figures.letters_twice += max(len(letters) - 1, 0)
        figures.deliveries += len(deliveries)
        figures.again += max(len(deliveries) - 1, 0)
        for one in deliveries:
            figures.lost_answers += not (one.is_taken or one.is_refused)
            figures.refused_answers += one.is_refused
            figures.late_answers += one.may_be_late

    def _note_late(self, deliveries: Sequence[_Delivery], letters: Sequence[Letter]) -> None:
        """Find answers that may have come after their lock's end, when the record was done by another one."""
        lock = self.evidence.lock_seconds
        for one in deliveries:
            if not one.is_taken or one.answered_at is None:
                continue
            is_out_of_time = one.answered_at - one.at >= lock or any(
                stop.member == one.member and stop.begin <= one.answered_at and stop.end >= one.at - lock
                for stop in self.evidence.stops
            )
            one.may_be_late = is_out_of_time and (
                bool(letters)
                or any(
                    other is not one and other.answer != RELEASE and other.at <= one.answered_at
                    for other in deliveries
                )
            )

    def _check_end(
        self,
        partition: int,
        offset: int,
        name: str,
        deliveries: Sequence[_Delivery],
        letters: Sequence[Letter],
    ) -> None:
        """What the record came to: it is accepted, or it has a letter."""
        is_accepted = any(one.answer == ACCEPT and not one.is_refused for one in deliveries)
        self.figures.accepted += is_accepted and not letters
        if not (is_accepted or letters):
            self._add("record is lost", partition, offset, name, deliveries)
        if any(one.answer == ACCEPT for one in deliveries) and name.startswith(POISON):
            self._add("poisoned record is accepted", partition, offset, name, deliveries)
        accepts = [one for one in deliveries if one.answer == ACCEPT and one.is_taken]
        certain = [one for one in accepts if not one.may_be_late]
        if len(certain) > 1:
            self._add("record is accepted twice", partition, offset, name, deliveries)
        if certain and letters:
            self._add("accepted record has a letter", partition, offset, name, deliveries)

    def _check_answers(self, partition: int, offset: int, name: str, deliveries: Sequence[_Delivery]) -> None:
        """Each answer counts that was taken, and none is followed by a delivery once it has ended its record's way."""
        counts: set[int] = set()
        done_at: float | None = None
        for one in deliveries:
            if one.count > self.evidence.delivery_count_max:
                self._add("delivered above the limit", partition, offset, name, deliveries)
            if not one.is_taken or one.may_be_late:
                continue
            if one.count in counts:
                self._add("delivery is not counted", partition, offset, name, deliveries)
            counts.add(one.count)
            if one.answer != RELEASE and done_at is None:
                done_at = one.answered_at
        if done_at is None:
            return
        # What another member was given before, it may have found later: until its lock ended, or when it continued.
        for one in deliveries:
            if one.at > done_at + self.evidence.lock_seconds and not self._is_old(one, done_at):
                self._add("delivered after it was done", partition, offset, name, deliveries)

    def _is_old(self, one: _Delivery, done_at: float) -> bool:
        return any(
            stop.member == one.member and stop.end >= done_at and stop.begin <= one.at
            for stop in self.evidence.stops
        )

    def _check_letter(self, letter: Letter, name: str, deliveries: Sequence[_Delivery]) -> None:
        place = letter.partition, letter.offset
        limit = self.evidence.delivery_count_max
        if letter.name != name:
            self._add(f"letter has {letter.name!r}", *place, name, deliveries)
        if letter.is_rejected and not any(one.answer == REJECT for one in deliveries):
            self._add("letter of a record that was not rejected", *place, name, deliveries)
        if letter.delivery_count > limit:
            self._add("letter says more deliveries than allowed", *place, name, deliveries)
        if not letter.is_rejected and letter.delivery_count < limit:
            self._add("letter before the last delivery", *place, name, deliveries)
