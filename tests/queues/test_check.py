"""The checker of the queue's proof: it accepts what is correct under faults, and finds each fault that is planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.queues.check import Evidence, Letter, Stop, check
from tests.queues.member_log import (
    Answered,
    Delivered,
    Failed,
    MemberEvent,
    MemberLog,
    Polled,
    Run,
    read_member_log,
)
from tests.queues.records import build_value, choose_answer, fate_of, read_name

LIMIT, LOCK_SECONDS = 3, 10.0
GOOD, ONCE, REJECTED, RELEASED = 0, 1, 2, 3
NAMES = {GOOD: "accept.w.0", ONCE: "once.w.1", REJECTED: "reject.w.2", RELEASED: "release.w.3"}
REFUSED, LOST = "InvalidRecordState: another member", "RequestTimedOut: no answer"


def give(offset: int, at: float, count: int = 1, *, answer: str = "accept") -> Polled:
    """A member is given one record of partition 0."""
    place = frozenset([(0, offset)])
    return Polled(
        at,
        [Run(0, offset, offset, count)],
        place if answer == "release" else frozenset(),
        place if answer == "reject" else frozenset(),
    )


def take(offset: int, at: float, error: str = "") -> Answered:
    return Answered(at, [(0, offset, offset)], error)


def release(offset: int, at: float, count: int) -> list[MemberEvent]:
    return [give(offset, at, count, answer="release"), take(offset, at + 0.1)]


# A good record, one that is released once, one that is rejected, and one that is released until it is given up.
CORRECT: list[MemberEvent] = [
    give(GOOD, 1.0),
    take(GOOD, 1.1),
    *release(ONCE, 2.0, 1),
    give(ONCE, 3.0, 2),
    take(ONCE, 3.1),
    give(REJECTED, 4.0, answer="reject"),
    take(REJECTED, 4.1),
    *release(RELEASED, 5.0, 1),
    *release(RELEASED, 6.0, 2),
    *release(RELEASED, 7.0, 3),
]
LETTERS = [
    Letter(0, REJECTED, 1, is_rejected=True, name=NAMES[REJECTED]),
    Letter(0, RELEASED, LIMIT, is_rejected=False, name=NAMES[RELEASED]),
]
EVIDENCE = Evidence(
    written={0: NAMES},
    acknowledged=[NAMES[GOOD], NAMES[RELEASED]],
    members={"m": CORRECT},
    letters=LETTERS,
    delivery_count_max=LIMIT,
    lock_seconds=LOCK_SECONDS,
)


def with_member(*events: MemberEvent, stops: Sequence[Stop] = ()) -> Evidence:
    """Another member has its part in it, too."""
    return replace(EVIDENCE, members={"m": CORRECT, "n": events}, stops=stops)


def without(offset: int) -> list[MemberEvent]:
    """The correct events without those of one record."""
    return [
        event
        for event in CORRECT
        if not (isinstance(event, Polled) and event.runs[0].first == offset)
        and not (isinstance(event, Answered) and event.ranges[0][1] == offset)
    ]


def instead_of(offset: int, *events: MemberEvent) -> Evidence:
    return replace(EVIDENCE, members={"m": [*without(offset), *events]})


def find_kinds(evidence: Evidence) -> set[str]:
    return {breach.name for breach in check(evidence).breaches}


def test_a_correct_run_is_accepted() -> None:
    verdict = check(EVIDENCE)
    assert verdict.breaches == []
    figures = verdict.figures
    assert (figures.records, figures.accepted, figures.given_up, figures.deliveries) == (4, 2, 2, 7)
    assert (figures.again, figures.lost_answers, figures.letters, figures.letters_twice) == (3, 0, 2, 0)


@pytest.mark.parametrize(
    "evidence",
    [
        # Its answer was lost, and it was stored or not.
        instead_of(GOOD, give(GOOD, 1.0)),
        instead_of(GOOD, give(GOOD, 1.0), take(GOOD, 3.0, LOST)),
        with_member(give(GOOD, 0.5)),
        with_member(give(GOOD, 0.5), take(GOOD, 0.9, REFUSED)),
        # With its leader the count of a delivery without an answer is lost.
        with_member(give(ONCE, 0.5, 1), give(ONCE, 0.6, 1), give(ONCE, 0.7, 2)),
        # Its lock had ended, and the record was done since.
        with_member(give(GOOD, 0.5), take(GOOD, 0.5 + LOCK_SECONDS)),
        # The member was stopped: it may have had the record for long when it found it.
        with_member(give(GOOD, 30.0), take(GOOD, 30.1), stops=[Stop("n", 0.5, 29.9)]),
        # A leader that ended after the letter left another one to its successor.
        replace(EVIDENCE, letters=[*LETTERS, LETTERS[0]]),
        # All answers of its deliveries were lost with members that were killed.
        replace(
            instead_of(GOOD, *(give(GOOD, at, at) for at in (1, 2, 3))),
            letters=[*LETTERS, Letter(0, GOOD, LIMIT, is_rejected=False, name=NAMES[GOOD])],
        ),
        # It was written, and its producer got no answer.
        replace(EVIDENCE, acknowledged=[]),
    ],
)
def test_what_lost_answers_explain_is_accepted(evidence: Evidence) -> None:
    assert check(evidence).breaches == []


@pytest.mark.parametrize(
    ("kind", "evidence"),
    [
        ("acknowledged record is not in the log", replace(EVIDENCE, acknowledged=["accept.w.9"])),
        ("record twice in the log", replace(EVIDENCE, written={0: NAMES, 1: {0: NAMES[GOOD]}})),
        ("offset without a record", with_member(give(9, 1.0))),
        ("record is lost", instead_of(GOOD)),
        ("record is lost", instead_of(GOOD, give(GOOD, 1.0), take(GOOD, 1.1, REFUSED))),
        ("record is lost", instead_of(ONCE, *release(ONCE, 2.0, 1))),
        ("record is lost", replace(EVIDENCE, letters=LETTERS[1:])),
        ("record is lost", replace(EVIDENCE, letters=LETTERS[:1])),
        ("poisoned record is accepted", with_member(give(REJECTED, 1.0), take(REJECTED, 1.1))),
        ("record is accepted twice", with_member(give(GOOD, 2.0, 2), take(GOOD, 2.1))),
        # The answer of a member that was stopped came first, so it counts.
        ("record is accepted twice", with_member(give(GOOD, 2.0), take(GOOD, 2.1), stops=[Stop("m", 0, 9)])),
        ("delivered after it was done", with_member(give(GOOD, 1.2 + LOCK_SECONDS, 2))),
        ("delivered above the limit", with_member(give(RELEASED, 7.5, LIMIT + 1))),
        ("delivery is not counted", with_member(*release(RELEASED, 5.5, 1))),
        (
            "accepted record has a letter",
            replace(EVIDENCE, letters=[*LETTERS, Letter(0, GOOD, 3, is_rejected=False, name=NAMES[GOOD])]),
        ),
        (
            "letter of a record that was not rejected",
            replace(EVIDENCE, letters=[*LETTERS, LETTERS[1]._replace(is_rejected=True)]),
        ),
        (
            "letter before the last delivery",
            replace(EVIDENCE, letters=[*LETTERS, LETTERS[1]._replace(delivery_count=2)]),
        ),
        (
            "letter says more deliveries than allowed",
            replace(EVIDENCE, letters=[*LETTERS, LETTERS[1]._replace(delivery_count=LIMIT + 1)]),
        ),
        (
            "letter has 'accept.w.7'",
            replace(EVIDENCE, letters=[*LETTERS, LETTERS[1]._replace(name="accept.w.7")]),
        ),
        ("offset without a record", replace(EVIDENCE, letters=[*LETTERS, LETTERS[1]._replace(offset=9)])),
    ],
)
def test_each_planted_fault_is_found(kind: str, evidence: Evidence) -> None:
    assert kind in find_kinds(evidence)


def test_a_stop_of_a_member_excuses_no_other_one() -> None:
    two_accepts = give(GOOD, 2.0, 2), take(GOOD, 2.1)
    assert "record is accepted twice" in find_kinds(with_member(*two_accepts, stops=[Stop("o", 0.0, 9.0)]))
    assert find_kinds(with_member(*two_accepts, stops=[Stop("n", 0.0, 1.9)])) == set()


def test_an_answer_is_that_of_the_newest_delivery() -> None:
    """The first answer was lost; the second one is the answer that was taken."""
    events = give(GOOD, 1.0), give(GOOD, 2.0, 2), take(GOOD, 2.1), take(GOOD, 2.2, LOST)
    figures = check(instead_of(GOOD, *events)).figures
    assert (figures.deliveries, figures.lost_answers) == (8, 1)


def test_a_response_that_refuses_an_answer_may_deliver_the_record_again() -> None:
    """Its lock had ended: the client reports the delivery first, then the refusal."""
    delivered = give(ONCE, 2.0, answer="release"), give(ONCE, 5.0, 2)
    answered = take(ONCE, 5.1, REFUSED), take(ONCE, 5.2)
    verdict = check(instead_of(ONCE, *delivered, *answered))
    assert verdict.breaches == []
    assert (verdict.figures.refused_answers, verdict.figures.lost_answers) == (1, 0)


def test_a_members_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    log = MemberLog(path)
    fates: dict[str, int] = {}
    for number in range(2_000):
        fates.setdefault(fate_of(number), number)
    values = {fate: build_value("w", number) for fate, number in fates.items()}
    assert set(values) == {"accept", "once", "release", "reject"}
    given = [("accept", 7, 1), ("accept", 8, 1), ("release", 9, 1), ("once", 10, 1), ("reject", 11, 2)]
    log.note_poll([Delivered(3, offset, count, values[fate]) for fate, offset, count in given])
    log.note_answers(3, {9, 7, 8, 11}, "Refused: no")
    log.note_failure(ValueError("it is not there"))
    with path.open("a") as file:
        file.write('["polled",12')  # it was killed
    polled, answered, failed = read_member_log(path)
    assert isinstance(polled, Polled)
    assert polled.runs == [Run(3, 7, 10, 1), Run(3, 11, 11, 2)]
    assert polled.released == frozenset([(3, 9), (3, 10)])
    assert polled.rejected == frozenset([(3, 11)])
    assert isinstance(answered, Answered)
    assert (answered.ranges, answered.error) == ([(3, 7, 9), (3, 11, 11)], "Refused: no")
    assert isinstance(failed, Failed)
    assert failed.error == "ValueError: it is not there"


def test_a_record_that_is_released_once_is_accepted_then() -> None:
    number = next(number for number in range(200) if fate_of(number) == "once")
    value = build_value("w", number)
    assert read_name(value) == f"once.w.{number}"
    assert [choose_answer(value, count) for count in (1, 2, 5)] == ["release", "accept", "accept"]
