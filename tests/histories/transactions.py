"""What has to hold of transactions (I4, I8), as pure checks of a history: of the simulation, of chaos, or made by hand.

The anomalies have the names that Jepsen gave them in Kafka and its relatives:

- aborted read (G1a): a reader of committed records got a record of a transaction that was aborted;
- early read: it got one before the producer asked for the commit;
- torn transaction: some records of a transaction are there and others are not;
- lost write: nothing is there of a transaction whose commit was acknowledged;
- duplicate: a record is there twice;
- invented record: no producer has sent it;
- reordered: a producer's records of a partition are there in another order;
- inconsistent offset: two readers, or one reader twice, got other values at the same offset;
- non-monotonic poll, skipping poll: a reader went back, or missed a record that is there in the end;
- split commit: outputs and offsets of one transaction do not agree.

Cycles of writes alone (G0) are legal in Kafka, which does not isolate writers. So they are not looked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

FOREVER: Final = float("inf")


class Breach(NamedTuple):
    """`invariant` is I4, I8 or I10; `name` the kind of anomaly; `what` says where it shows."""

    invariant: str
    name: str
    what: str


class Outcome(Enum):
    """What the producer learned of its transaction. One that was fenced before it asked for a commit is ABORTED."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


Key = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class Attempt:
    """One transaction of one producer. `writes` are those that were handed to the producer, in that order.

    `reads` are the inputs it stands for, and `offsets` what it commits for the group, next to be read.
    """

    name: str
    outcome: Outcome = Outcome.UNKNOWN
    writes: list[tuple[Key, bytes]] = field(default_factory=list)
    commit_asked_at: float = FOREVER
    reads: list[tuple[Key, int]] = field(default_factory=list)
    offsets: dict[Key, int] = field(default_factory=dict)


class Poll(NamedTuple):
    """A record that a reader of committed records got. `reader` is one life: after a seek it has another name."""

    at: float
    reader: str
    key: Key
    offset: int
    value: bytes


Logs = Mapping[Key, Sequence[tuple[int, bytes]]]
"""By partition offsets and values, as a reader of committed records gets them in the end."""


def check_final(attempts: Iterable[Attempt], logs: Logs) -> Iterator[Breach]:
    """What is there in the end, against what was asked for."""
    attempts = list(attempts)
    places: dict[tuple[Key, bytes], list[int]] = defaultdict(list)
    for key, log in logs.items():
        for offset, value in log:
            places[key, value].append(offset)
    yield from _check_twice(places)
    sent = {write for attempt in attempts for write in attempt.writes}
    for key, value in places:
        if (key, value) not in sent:
            yield Breach("I8", "invented record", f"{value!r} is in {_named(key)}, and no producer sent it")
    for attempt in attempts:
        yield from _check_attempt(attempt, places)
        yield from _check_order(attempt, places)


def _check_twice(places: Mapping[tuple[Key, bytes], list[int]]) -> Iterator[Breach]:
    for (key, value), offsets in places.items():
        if len(offsets) > 1:
            yield Breach("I4", "duplicate", f"{value!r} is in {_named(key)} at {offsets}")


def _check_attempt(attempt: Attempt, places: Mapping[tuple[Key, bytes], list[int]]) -> Iterator[Breach]:
    there = [write for write in attempt.writes if write in places]
    missing = [write for write in attempt.writes if write not in places]
    if attempt.outcome is Outcome.ABORTED:
        for key, value in there:
            what = (
                f"{value!r} of {attempt.name}, which was aborted, is in {_named(key)} at {places[key, value]}"
            )
            yield Breach("I8", "aborted read", what)
    elif there and missing:
        (key, value), (lost_key, lost) = there[0], missing[0]
        what = f"{attempt.name}: {value!r} is in {_named(key)}, and {lost!r} is not in {_named(lost_key)}"
        yield Breach("I8", "torn transaction", what)
    elif missing and attempt.outcome is Outcome.COMMITTED:
        yield Breach("I8", "lost write", f"{attempt.name} is committed, and none of {missing} is there")


def _check_order(attempt: Attempt, places: Mapping[tuple[Key, bytes], list[int]]) -> Iterator[Breach]:
    last: dict[Key, tuple[int, bytes]] = {}
    for key, value in attempt.writes:
        for offset in places.get((key, value), ())[:1]:
            before = last.get(key, (-1, b""))
            if offset < before[0]:
                what = f"{attempt.name}: {value!r} is in {_named(key)} at {offset}, before {before[1]!r}"
                yield Breach("I4", "reordered", what)
            last[key] = (offset, value)


def check_polls(attempts: Iterable[Attempt], logs: Logs, polls: Sequence[Poll]) -> Iterator[Breach]:
    """What readers got on the way, against what is there in the end."""
    owner = {write: attempt for attempt in attempts for write in attempt.writes}
    final = {(key, offset): value for key, log in logs.items() for offset, value in log}
    positions: dict[tuple[str, Key], int] = {}
    for poll in polls:
        where = f"{poll.reader} got {poll.value!r} of {_named(poll.key)} at {poll.offset}"
        attempt = owner.get((poll.key, poll.value))
        if attempt is None:
            yield Breach("I8", "invented record", f"{where}, and no producer sent it")
        elif attempt.outcome is Outcome.ABORTED:
            yield Breach("I8", "aborted read", f"{where}, and {attempt.name} was aborted")
        elif poll.at < attempt.commit_asked_at:
            yield Breach("I8", "early read", f"{where}, before the commit of {attempt.name} was asked for")
        if final.get((poll.key, poll.offset)) != poll.value:
            there = final.get((poll.key, poll.offset))
            yield Breach("I8", "inconsistent offset", f"{where}, where {there!r} is in the end")
        before = positions.get((poll.reader, poll.key))
        if before is not None and poll.offset <= before:
            yield Breach("I8", "non-monotonic poll", f"{where}, behind {before}")
        positions[poll.reader, poll.key] = poll.offset
    yield from _check_skipped(logs, polls)


def _check_skipped(logs: Logs, polls: Sequence[Poll]) -> Iterator[Breach]:
    got: dict[tuple[str, Key], set[int]] = defaultdict(set)
    for poll in polls:
        got[poll.reader, poll.key].add(poll.offset)
    for (reader, key), offsets in got.items():
        first, last = min(offsets), max(offsets)
        skipped = [
            offset for offset, _ in logs.get(key, ()) if first < offset < last and offset not in offsets
        ]
        if skipped:
            what = f"{reader} read {_named(key)} from {first} to {last} without {skipped[:5]}"
            yield Breach("I8", "skipping poll", what)


def check_offsets(
    attempts: Iterable[Attempt],
    logs: Logs,
    committed: Mapping[Key, int],
    *,
    inputs: Mapping[Key, Sequence[int]],
) -> Iterator[Breach]:
    """Consume, transform, produce: each of `inputs` below the `committed` offset of its partition has its outputs once.

    `inputs` are the offsets of the records that the group is given, by partition.
    """
    attempts = list(attempts)
    there = {(key, value) for key, log in logs.items() for _, value in log}
    done: Counter[tuple[Key, int]] = Counter()
    for attempt in attempts:
        if attempt.outcome is not Outcome.ABORTED and attempt.writes and set(attempt.writes) <= there:
            done.update(attempt.reads)
            for key, offset in attempt.offsets.items():
                if committed.get(key, 0) < offset:
                    what = f"{attempt.name} is there, and {_named(key)} is at {committed.get(key, 0)}, not {offset}"
                    yield Breach("I8", "split commit", what)
    for (key, offset), count in done.items():
        if count > 1:
            yield Breach("I4", "duplicate", f"{_named(key)}:{offset} was processed {count} times")
    for key, end in committed.items():
        for offset in inputs.get(key, ()):
            if offset < end and not done[key, offset]:
                what = f"{_named(key)} is committed up to {end}, and nothing came of offset {offset}"
                yield Breach("I8", "lost write", what)


def _named(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
