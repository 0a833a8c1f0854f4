"""Records in flight in one share-partition, as runs: neighbouring offsets of one state, owner and delivery count.

    batch    0 ........................ 99    100 .......... 149
    runs     acquired 0-49, available 50-99   acknowledged 100-149

A batch has one run until its records part ways. So memory grows with the differences between records, not with their
number. A batch keeps the size with which it was acquired: what is delivered too often is isolated by parts of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from odradek.foundation.named_tuple import NamedTuple

NO_MEMBER: Final = ""
NO_LOCK: Final = 0.0

_first = attrgetter("first")


class RecordState:
    """The states of a record, by their numbers in Kafka."""

    AVAILABLE: Final = 0
    ACQUIRED: Final = 1
    ACKNOWLEDGED: Final = 2
    ARCHIVING: Final = 3
    """A copy is on its way to the dead-letter topic; then the record is archived."""
    ARCHIVED: Final = 4


TERMINAL: Final = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))


class Before(NamedTuple):
    """What a run was before a change whose write is under way, and what the group's rules were."""

    state: int
    member: str
    delivery_count_max: int
    has_dead_letters: bool = False


class RecordRun:
    """Offsets from `first` to `last`, both included. While `before` is set, nothing else may change the run."""

    __slots__ = ("before", "delivery_count", "first", "last", "locked_until", "member", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: int,
        delivery_count: int,
        member: str = NO_MEMBER,
        locked_until: float = NO_LOCK,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member = member
        self.locked_until = locked_until
        self.before: Before | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"{self.first}-{self.last}:{self.state}x{self.delivery_count}{'*' if self.before else ''}"

    @property
    def is_available(self) -> bool:
        return self.state == RecordState.AVAILABLE and self.before is None

    @property
    def is_held(self) -> bool:
        """Whether a member has the records, and no change of them is under way."""
        return self.state == RecordState.ACQUIRED and self.before is None

    @property
    def is_done(self) -> bool:
        """Whether the records need no delivery any more, and that is stored."""
        return self.state in TERMINAL and self.before is None

    def continues(self, other: RecordRun) -> bool:
        """Whether this run and `other` before it may be one."""
        return (
            self.before is None
            and other.before is None
            and self.first == other.last + 1
            and self.state == other.state
            and self.delivery_count == other.delivery_count
            and self.member == other.member
            and self.locked_until == other.locked_until
        )


class InFlightBatch:
    """Neighbouring runs whose records were acquired together at first.

    `is_gap` marks offsets between stored states that no member had since: they are acquired as new ones.
    """

    __slots__ = ("is_gap", "runs", "size")

    def __init__(self, runs: list[RecordRun], *, is_gap: bool = False) -> None:
        self.runs = runs
        self.is_gap = is_gap
        self.size = runs[-1].last - runs[0].first + 1

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def last(self) -> int:
        return self.runs[-1].last

    def index_of(self, offset: int) -> int:
        """The index of the run that has `offset`, or of the one before it."""
        runs = self.runs
        return 0 if len(runs) == 1 else max(bisect_right(runs, offset, key=_first) - 1, 0)

    def overlapping(self, first: int, last: int) -> Iterator[RecordRun]:
        """The runs with offsets from `first` to `last`, while none is split."""
        runs = self.runs
        for index in range(self.index_of(first), len(runs)):
            run = runs[index]
            if run.first > last:
                return
            if run.last >= first:
                yield run

    def cut(self, run: RecordRun, first: int, last: int) -> RecordRun:
        """The part of `run` from `first` to `last`, as a run of its own; what is around it stays as it is."""
        assert run.before is None, "a run whose change is under way is not split"
        first, last = max(first, run.first), min(last, run.last)
        if first == run.first and last == run.last:
            return run
        index = self.index_of(run.first)
        part = RecordRun(first, last, run.state, run.delivery_count, run.member, run.locked_until)
        pieces = [part]
        if last < run.last:
            pieces.append(
                RecordRun(last + 1, run.last, run.state, run.delivery_count, run.member, run.locked_until)
            )
        if first > run.first:
            run.last = first - 1
            index += 1
            self.runs[index:index] = pieces
        else:
            self.runs[index : index + 1] = pieces
        return part

    def split(self, offsets: Sequence[int]) -> None:
        """Let acquired runs end before each of `offsets`, which are sorted; others stay as they are.

        Many parts cost one pass.
        """
        runs: list[RecordRun] = []
        for run in self.runs:
            runs.append(run)
            if run.state != RecordState.ACQUIRED or run.before is not None:
                continue
            inside = range(bisect_right(offsets, run.first), bisect_right(offsets, run.last))
            for index in inside:
                first = offsets[index]
                rest = RecordRun(
                    first, runs[-1].last, run.state, run.delivery_count, run.member, run.locked_until
                )
                runs[-1].last = first - 1
                runs.append(rest)
        self.runs = runs

    def join(self, run: RecordRun) -> None:
        """Join `run` with its neighbours where they are alike. `run` may go into the one before it."""
        runs = self.runs
        index = self.index_of(run.first)
        if index + 1 < len(runs) and runs[index + 1].continues(run):
            run.last = runs.pop(index + 1).last
        if index and run.continues(runs[index - 1]):
            runs[index - 1].last = run.last
            del runs[index]
