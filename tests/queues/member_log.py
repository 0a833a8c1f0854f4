"""What a member of the queue saw and did: an append-only file of one JSON array a line, the same for all clients.

    ["polled", at, [[partition, first, last, count], …], [[partition, released], …], [[partition, rejected], …]]
    ["answered", at, [[partition, first, last], …], error]
    ["failed", at, error]

`polled` is written before anything is answered; `count` is the delivery count. What is neither released nor rejected is
accepted. `answered` says that the answers for these offsets have arrived, and why they were refused. Times are of the
system's monotonic clock. A member that is killed leaves a last line that may not be whole.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.queues.records import RELEASE, choose_answer

_RECORDS_OF_FULL_WORK: Final = 100

Place = tuple[int, int]
"""A partition and an offset."""


class Run(NamedTuple):
    """Neighbouring offsets that were delivered equally often."""

    partition: int
    first: int
    last: int
    delivery_count: int


class Polled(NamedTuple):
    """One poll with records."""

    at: float
    runs: Sequence[Run]
    released: frozenset[Place] = frozenset()
    rejected: frozenset[Place] = frozenset()


class Answered(NamedTuple):
    """The answers for these ranges of offsets have arrived. `error` is empty where they were taken."""

    at: float
    ranges: Sequence[tuple[int, int, int]]
    error: str = ""


class Failed(NamedTuple):
    """The client raised an error."""

    at: float
    error: str


MemberEvent = Polled | Answered | Failed


class Delivered(NamedTuple):
    """One record that a member was given."""

    partition: int
    offset: int
    delivery_count: int
    value: bytes | None

    @property
    def answer(self) -> str:
        return choose_answer(self.value, self.delivery_count)


class MemberLog:
    """Appends; each line is one write, which a kill does not split."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note_poll(self, records: Sequence[Delivered]) -> None:
        runs: list[list[int]] = []
        released: list[Place] = []
        rejected: list[Place] = []
        for partition, offset, count, _ in records:
            last = runs[-1] if runs else [-1, 0, 0, 0]
            if last[0] == partition and last[2] + 1 == offset and last[3] == count:
                last[2] = offset
            else:
                runs.append([partition, offset, offset, count])
        for one in records:
            if (answer := one.answer) != "accept":
                (released if answer == RELEASE else rejected).append((one.partition, one.offset))
        self._add("polled", runs, released, rejected)

    def note_answers(self, partition: int, offsets: Iterable[int], error: str) -> None:
        ranges: list[list[int]] = []
        for offset in sorted(offsets):
            if ranges and ranges[-1][2] + 1 == offset:
                ranges[-1][2] = offset
            else:
                ranges.append([partition, offset, offset])
        self._add("answered", ranges, error)

    def note_failure(self, failure: BaseException) -> None:
        self._add("failed", describe(failure))

    def _add(self, what: str, *details: object) -> None:
        line = json.dumps([what, round(time.monotonic(), 4), *details], separators=(",", ":"))
        os.write(self._descriptor, line.encode() + b"\n")


def choose_work_seconds(chance: random.Random, seconds_max: float, records: int) -> float:
    """How long a member works on so many records before it answers."""
    return chance.uniform(0, seconds_max) * min(records / _RECORDS_OF_FULL_WORK, 1.0)


def describe(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"[:300]


def read_member_log(path: Path) -> Iterator[MemberEvent]:
    """The events of one life of a member, the earliest first."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield _parse(line)


def _parse(line: str) -> MemberEvent:
    """Raises ValueError for a line that is no event."""
    what, at, *details = json.loads(line)
    match what:
        case "polled":
            runs, released, rejected = details
            return Polled(
                at,
                [Run(*run) for run in runs],
                frozenset((partition, offset) for partition, offset in released),
                frozenset((partition, offset) for partition, offset in rejected),
            )
        case "answered":
            ranges, error = details
            return Answered(at, [(one[0], one[1], one[2]) for one in ranges], error)
        case "failed":
            return Failed(at, details[0])
    raise ValueError(f"no event of a member: {line[:200]}")
