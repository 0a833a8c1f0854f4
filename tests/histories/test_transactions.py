"""Each check of transactions finds what is planted into a history that is clean, under the name of the anomaly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.histories.transactions import (
    Attempt,
    Breach,
    Key,
    Outcome,
    Poll,
    check_final,
    check_offsets,
    check_polls,
)

ONE: Final[Key] = ("t", 0)
TWO: Final[Key] = ("t", 1)
SOURCE: Final[Key] = ("source", 0)


def _attempts() -> list[Attempt]:
    return [
        Attempt(
            "p.0", Outcome.COMMITTED, [(ONE, b"a"), (TWO, b"b"), (ONE, b"c")], 1.0, [(SOURCE, 0)], {SOURCE: 1}
        ),
        Attempt("p.1", Outcome.ABORTED, [(ONE, b"x")]),
        Attempt("q.0", Outcome.UNKNOWN, [(ONE, b"d"), (TWO, b"e")], 2.0, [(SOURCE, 1)], {SOURCE: 2}),
        Attempt("q.1", Outcome.UNKNOWN, [(ONE, b"f"), (TWO, b"g")], 3.0, [(SOURCE, 2)], {SOURCE: 3}),
        Attempt("p.2", Outcome.COMMITTED, [(ONE, b"h"), (TWO, b"i")], 4.0, [(SOURCE, 2)], {SOURCE: 3}),
    ]


@dataclass
class Story:
    """A clean history: one unknown transaction was committed, one aborted."""

    attempts: list[Attempt] = field(default_factory=_attempts)
    logs: dict[Key, list[tuple[int, bytes]]] = field(
        default_factory=lambda: {
            ONE: [(0, b"a"), (1, b"c"), (4, b"d"), (7, b"h")],
            TWO: [(0, b"b"), (2, b"e"), (5, b"i")],
        }
    )
    polls: list[Poll] = field(
        default_factory=lambda: [
            Poll(1.1, "r", ONE, 0, b"a"),
            Poll(1.1, "r", ONE, 1, b"c"),
            Poll(2.1, "r", TWO, 0, b"b"),
            Poll(2.2, "r", ONE, 4, b"d"),
            Poll(3.1, "again", ONE, 1, b"c"),
            Poll(4.1, "r", ONE, 7, b"h"),
        ]
    )
    committed: dict[Key, int] = field(default_factory=lambda: {SOURCE: 3})

    def find(self) -> list[Breach]:
        return [
            *check_final(self.attempts, self.logs),
            *check_polls(self.attempts, self.logs, self.polls),
            *check_offsets(self.attempts, self.logs, self.committed, inputs={SOURCE: [0, 1, 2, 3]}),
        ]


def test_a_clean_history_passes() -> None:
    assert Story().find() == []


def test_cycles_of_writes_alone_are_legal() -> None:
    story = Story()
    story.logs = {ONE: [(0, b"a"), (1, b"c"), (4, b"h"), (7, b"d")], TWO: [(0, b"b"), (2, b"e"), (5, b"i")]}
    story.polls = []
    assert story.find() == []


def _aborted_read(story: Story) -> None:
    story.logs[ONE].insert(2, (3, b"x"))


def _aborted_read_in_a_poll(story: Story) -> None:
    story.polls[3] = Poll(2.2, "r", ONE, 4, b"x")


def _early_read(story: Story) -> None:
    story.polls[3] = Poll(1.9, "r", ONE, 4, b"d")


def _torn(story: Story) -> None:
    story.logs[TWO].pop(1)


def _torn_of_a_committed_one(story: Story) -> None:
    story.logs[TWO].pop(0)
    story.polls.pop(2)


def _lost_write(story: Story) -> None:
    story.logs[ONE].pop()
    story.logs[TWO].pop()
    story.polls.pop()
    story.committed[SOURCE] = 2


def _duplicate(story: Story) -> None:
    story.logs[TWO].append((9, b"b"))


def _invented(story: Story) -> None:
    story.logs[TWO].append((9, b"invented"))


def _reordered(story: Story) -> None:
    story.logs[ONE][:2] = [(0, b"c"), (1, b"a")]
    story.polls = []


def _inconsistent_offset(story: Story) -> None:
    story.polls[0] = Poll(1.1, "r", ONE, 0, b"c")


def _non_monotonic(story: Story) -> None:
    story.polls.append(Poll(5.0, "r", ONE, 4, b"d"))


def _skipping(story: Story) -> None:
    story.polls.pop(1)


def _offset_behind(story: Story) -> None:
    story.committed[SOURCE] = 2


def _offset_ahead(story: Story) -> None:
    story.committed[SOURCE] = 4


def _processed_twice(story: Story) -> None:
    story.logs[ONE].insert(3, (6, b"f"))
    story.logs[TWO].insert(2, (4, b"g"))
    story.polls = []


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (_aborted_read, ("I8", "aborted read")),
        (_aborted_read_in_a_poll, ("I8", "aborted read")),
        (_early_read, ("I8", "early read")),
        (_torn, ("I8", "torn transaction")),
        (_torn_of_a_committed_one, ("I8", "torn transaction")),
        (_lost_write, ("I8", "lost write")),
        (_duplicate, ("I4", "duplicate")),
        (_invented, ("I8", "invented record")),
        (_reordered, ("I4", "reordered")),
        (_inconsistent_offset, ("I8", "inconsistent offset")),
        (_non_monotonic, ("I8", "non-monotonic poll")),
        (_skipping, ("I8", "skipping poll")),
        (_offset_behind, ("I8", "split commit")),
        (_offset_ahead, ("I8", "lost write")),
        (_processed_twice, ("I4", "duplicate")),
    ],
)
def test_what_is_planted_is_found(plant: Callable[[Story], None], expected: tuple[str, str]) -> None:
    story = Story()
    plant(story)
    assert expected in [(breach.invariant, breach.name) for breach in story.find()]
