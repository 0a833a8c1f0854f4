"""The judge of `e2e/attack` finds each kind of broken promise."""

from __future__ import annotations

import pytest

from e2e.attack.judge import Judge
from tests.proof import PROOFS, figures_of

HELD = [(0, 0, "a-0"), (0, 1, "a-1"), (1, 0, "a-2")]


def judge_of(producer: str, consumer: str) -> Judge:
    judge = Judge()
    judge.take("producer-a", producer)
    judge.take("consumer-a", consumer)
    return judge


@pytest.fixture
def judge() -> Judge:
    lines = "1.0 0 0 a-0\n1.1 0 1 a-1\n4.0 1 0 a-2\n"
    return judge_of(lines, lines)


def test_what_is_kept_is_no_complaint(judge: Judge) -> None:
    assert judge.complaints(HELD, {}) == []
    assert judge.missing() == []


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        (HELD[:2], "1 records were acknowledged and are lost: (1, 0) a-2"),
        ([*HELD[:2], (1, 0, "other")], "1 records were acknowledged and are lost: (1, 0) a-2"),
        ([*HELD, (1, 1, "a-1")], "1 records are there twice: a-1"),
    ],
)
def test_records_that_are_not_as_acknowledged_are_named(
    judge: Judge, held: list[tuple[int, int, str]], complaint: str
) -> None:
    assert complaint in judge.complaints(held, {})


def test_a_record_that_a_consumer_was_given_and_that_is_not_there_is_named() -> None:
    judge = judge_of("1.0 0 0 a-0\n", "1.0 0 0 a-0\n1.1 0 1 phantom\n")
    assert judge.complaints(HELD[:1], {}) == [
        "1 records were given to consumers and are not there: (0, 1) phantom"
    ]


def test_a_record_that_no_consumer_was_given_is_missing() -> None:
    judge = judge_of("1.0 0 0 a-0\n1.1 0 1 a-1\n", "1.0 0 0 a-0\n")
    assert judge.missing() == [(0, 1)]


def test_a_record_that_failed_for_good_is_named() -> None:
    judge = judge_of("1.0 0 0 a-0\n2.0 failed a-1 timed out\n", "1.0 0 0 a-0\n")
    assert judge.complaints(HELD[:1], {}) == ["1 records failed for good: producer-a: a-1 timed out"]


def test_records_before_the_begin_are_not_looked_at(judge: Judge) -> None:
    assert judge.complaints(HELD[1:], {0: 1}) == []
    assert judge.ends() == {0: 2, 1: 1}


def test_producers_are_silent_as_long_as_any_of_them_is(judge: Judge) -> None:
    assert judge.producers_silence(0.5, 4.5) == pytest.approx(2.9)
    assert judge.producers_silence(3.5, 9.0) == pytest.approx(5.0), "nothing came after the record at 4.0"
    judge.take("producer-b", "0.6 2 0 b-0\n")
    assert judge.producers_silence(0.5, 4.5) == pytest.approx(3.9), "the other producer had only one"


def test_consumers_are_silent_while_the_group_has_nothing(judge: Judge) -> None:
    assert judge.consumers_silence(0.5, 4.5) == pytest.approx(2.9)
    judge.take("consumer-b", "2.5 1 7 again\n")
    assert judge.consumers_silence(0.5, 4.5) == pytest.approx(1.5), "another member had a record in between"


def test_consumers_are_silent_while_a_record_waits_for_them() -> None:
    steady = "".join(f"{at / 10} 1 {at} b-{at}\n" for at in range(10, 50))
    judge = judge_of("1.0 0 0 a-0\n" + steady, steady + "4.6 0 0 a-0\n4.8 0 0 a-0\n")
    assert judge.consumers_silence(1.0, 5.0) == pytest.approx(3.6), "until it was given to them first"
    assert judge.consumers_silence(4.0, 5.0) == pytest.approx(0.6), "what began before counts from the begin"
    assert judge_of("1.0 0 0 a-0\n", "").consumers_silence(1.0, 5.0) == pytest.approx(4.0), (
        "and it still waits"
    )


def test_a_line_that_is_cut_off_is_read_when_its_rest_comes() -> None:
    judge = judge_of("1.0 0 0 a-0\n1.1 0 1 a", "")
    assert judge.acknowledged == {(0, 0): "a-0"}
    judge.take("producer-a", "-1\n")
    assert judge.acknowledged == {(0, 0): "a-0", (0, 1): "a-1"}


def test_the_page_of_proofs_takes_its_last_line() -> None:
    proof = next(one for one in PROOFS if one.name == "attack")
    printed = "held broker-lost: 20 s, silence 0.40 s and 0.50 s, load 2.0\nheld: 1 of 1 attacks in 20 s\n"
    assert figures_of(printed, proof.figures) == "held: 1 of 1 attacks in 20 s"
    assert figures_of("FAILED: 0 of 1 attacks\n", proof.figures) == "FAILED: 0 of 1 attacks"
