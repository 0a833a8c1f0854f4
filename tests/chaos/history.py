"""Clients' requests and answers, leaders that were seen, and faults: an append-only file of one event a line.

Several processes add to one file: each line is one write to a descriptor opened for appending, so lines never mix.
Times are seconds of the system's monotonic clock, the same in all processes. A client writes an invocation before it
acts on it, so that nothing can be in a log that the history does not know of.

Left out: the logs themselves, which are read from the brokers' disks in the end (`final_logs`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerBegan:
    """`acks` is -1 for all. `is_ordered` promises that its records of a partition are written in the order sent.

    `renews_itself` is for clients that take another epoch, for all partitions, when one of several batches under way is
    refused. (librdkafka does: "skipped sequence numbers".) They then write again what was not answered elsewhere.
    """

    at: float
    producer: str
    acks: int
    is_idempotent: bool
    is_ordered: bool
    renews_itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A producer is about to send its record `number`; its value begins with "PRODUCER.NUMBER "."""

    at: float
    producer: str
    number: int
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """`offset` is -1 where the broker only said that it has the record already."""

    at: float
    producer: str
    number: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The producer gave the record up: it may be in the log, or not."""

    at: float
    producer: str
    number: int
    topic: str
    partition: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One answer to a reader. `epoch` is the one the reader named, so the broker was in it, or -1 when it named none.

    `records` are [offset, name of the value]. `transaction` is for readers of committed records alone.
    """

    at: float
    begun_at: float
    reader: str
    broker: int
    is_leader: bool
    topic: str
    partition: int
    epoch: int
    fetch_offset: int
    high_watermark: int
    last_stable_offset: int
    records: Sequence[tuple[int, str]]
    is_committed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The outcome of a producer's transaction over its records [number]: `committed`, `aborted` or `unknown`."""

    at: float
    producer: str
    numbers: Sequence[int]
    outcome: str


REGISTRY: Final = "registry"  # the source of states from ZooKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSeen:
    """A partition's state as the registry or a broker reported it (`source`)."""

    at: float
    source: str
    topic: str
    partition: int
    leader: int
    epoch: int
    in_sync: Sequence[int]
    replicas: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAsked:
    """A topic was to be made or deleted. `outcome` is `done`, `unknown` (it may yet happen) or `refused`."""

    at: float
    begun_at: float
    topic: str
    is_deletion: bool
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReported:
    """What a member of a group reported (`tests.support.group_member`): what, and details."""

    at: float
    group: str
    member: int
    protocol: str
    what: str
    details: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A request made after everything was healed; `error` is empty where it was answered."""

    at: float
    begun_at: float
    what: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trespassed:
    """A broker did what is denied to all clients."""

    at: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReported:
    """A fault that begins or ends; `number` pairs the two."""

    at: float
    number: int
    what: str
    has_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """A process ended by itself. `excuse` names the fault that explains it, empty when none does."""

    at: float
    process: str
    exit_code: int
    said: str
    excuse: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLogged:
    """Something in a process's log that no fault should cause: a traceback."""

    at: float
    process: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndAnswered:
    """A broker, leader of `leader_epoch`, answered a client where `epoch` ended."""

    at: float
    process: str
    topic: str
    partition: int
    epoch: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReported:
    """`what` is "write" (about to be sent, with partition and value), "commit asked", "committed" or "aborted"."""

    at: float
    transaction: str
    what: str
    topic: str
    partition: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    """A reader of committed records got a record. The reader "final" reads all of it after the faults."""

    at: float
    reader: str
    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedReported:
    """A write to a compacted topic. `what` is "write" (about to be sent), "answered" (with its offset) or "aborted".

    One of a transaction is answered once it is committed, and aborted when its commit was not asked for.
    """

    at: float
    name: str
    what: str
    key: str
    is_deletion: bool
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRead:
    """A record that a reader of committed records got from the compacted topic after the faults."""

    at: float
    name: str
    key: str
    is_deletion: bool
    offset: int


Event = (
    ProducerBegan
    | Sent
    | Acknowledged
    | Refused
    | Fetched
    | Transaction
    | StateSeen
    | TopicAsked
    | GroupReported
    | Probed
    | Trespassed
    | FaultReported
    | ProcessEnded
    | ErrorLogged
    | EpochEndAnswered
    | TransactionReported
    | CommittedRead
    | KeyedReported
    | KeyedRead
)

_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        ProducerBegan,
        Sent,
        Acknowledged,
        Refused,
        Fetched,
        Transaction,
        StateSeen,
        TopicAsked,
        GroupReported,
        Probed,
        Trespassed,
        FaultReported,
        ProcessEnded,
        ErrorLogged,
        EpochEndAnswered,
        TransactionReported,
        CommittedRead,
        KeyedReported,
        KeyedRead,
    )
}
_FIELDS: Final = {name: tuple(field.name for field in fields(kind)) for name, kind in _KINDS.items()}


def now() -> float:
    """Seconds, to the microsecond: what a line can hold."""
    return round(time.monotonic(), 6)


def record_name(producer: str, number: int) -> str:
    """What a record's value begins with."""
    return f"{producer}.{number}"


def name_of_value(value: bytes) -> str:
    """The name that a value begins with."""
    return value.split(b" ", 1)[0].decode(errors="replace")


def to_line(event: Event) -> str:
    name = type(event).__name__
    return json.dumps(
        [name, *(getattr(event, field) for field in _FIELDS[name])], separators=(",", ":"), default=list
    )


def from_line(line: str) -> Event:
    """Raises ValueError for a line that is no event."""
    name, *values = json.loads(line)
    kind = _KINDS.get(name)
    if kind is None or len(values) != len(_FIELDS[name]):
        raise ValueError(f"no event of a history: {line[:200]}")
    event: Event = kind(**dict(zip(_FIELDS[name], values, strict=True)))
    return event


class HistoryFile:
    """Appends events; safe for several processes and threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, event: Event) -> None:
        line = to_line(event).encode() + b"\n"
        written = os.write(self._descriptor, line)
        assert written == len(line), f"{self.path} took {written} of {len(line)} bytes"

    def close(self) -> None:
        os.close(self._descriptor)


def read_events(path: Path) -> Iterator[Event]:
    with path.open() as lines:
        for line in lines:
            yield from_line(line)
