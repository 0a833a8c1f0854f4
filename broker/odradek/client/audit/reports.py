"""The messages of the audit topic, as values and as JSON. Every message of a session goes to the same partition.

`counts` is cumulative for its session, part, topic, partition and window: a later one replaces an earlier one.
`session` is the heartbeat. It has the number of records that the counts before it add up to, so that a lost message
shows. It has the lowest time that the producer may still send, too. Hashes are 15 hexadecimal digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from odradek.client.audit.counts import Counts
from odradek.foundation.errors import InvalidRecord

AUDIT_TOPIC: Final = "__odradek_audit"
VERSION: Final = 1
_HASH: Final = "015x"


@dataclass(frozen=True, slots=True)
class CountsReport:
    """The records that one session has written so far into one window of one partition."""

    producer: str
    session: str
    sequence: int
    part: int
    topic: str
    topic_id: str
    partition: int
    window_start_ms: int
    window_ms: int
    counts: Counts
    sent_ms: int

    def key(self) -> bytes:
        """The key by which a later message replaces an earlier one."""
        return _text(
            [
                "counts",
                self.session,
                self.part,
                self.topic,
                self.topic_id,
                self.partition,
                self.window_start_ms,
            ]
        )

    def value(self) -> bytes:
        row, found = asdict(self), self.counts
        del row["counts"], row["sent_ms"]  # they follow
        return _text(
            {
                "v": VERSION,
                "kind": "counts",
                **row,
                "count": found.count,
                "bytes": found.size_bytes,
                "xor_hash": format(found.xor_hash, _HASH),
                "sum_hash": format(found.sum_hash, _HASH),
                "first_offset": found.first_offset,
                "last_offset": found.last_offset,
                "late": found.late,
                "sent_ms": self.sent_ms,
            }
        )


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A heartbeat. `count` is of all records that the session's counts before it have, over all its topics.

    `low_time_ms` is a promise: no record older than this will follow. A session that is silent for `lease_ms` without
    `is_closed` is taken for dead.
    """

    producer: str
    session: str
    sequence: int
    topics: tuple[str, ...]
    window_ms: int
    count: int
    low_time_ms: int
    lease_ms: int
    sent_ms: int
    is_closed: bool = False

    def key(self) -> bytes:
        return _text(["session", self.session])

    def value(self) -> bytes:
        row = asdict(self)
        is_closed = row.pop("is_closed")
        return _text({"v": VERSION, "kind": "session", **row, "closed": is_closed})


# An object of JSON, each field of which is checked when it is read.
Row = Mapping[str, Any]


def read_report(value: bytes) -> CountsReport | SessionReport:
    """A message's value. Raises InvalidRecord for what is none, or is of a later version."""
    try:
        row = json.loads(value)
        if row["v"] != VERSION:
            raise InvalidRecord(
                f"a message of the audit has version {row['v']!r}; this program reads {VERSION}"
            )
        return _session(row) if row["kind"] == "session" else _counts(row)
    except (ValueError, KeyError, TypeError) as failure:
        raise InvalidRecord(f"a message is no report of an audit: {value[:80]!r}") from failure


def _session(row: Row) -> SessionReport:
    return SessionReport(
        producer=str(row["producer"]),
        session=str(row["session"]),
        sequence=int(row["sequence"]),
        topics=tuple(map(str, row["topics"])),
        window_ms=_positive(row["window_ms"]),
        count=int(row["count"]),
        low_time_ms=int(row["low_time_ms"]),
        lease_ms=int(row["lease_ms"]),
        sent_ms=int(row["sent_ms"]),
        is_closed=bool(row["closed"]),
    )


def _counts(row: Row) -> CountsReport:
    counts = Counts(
        count=int(row["count"]),
        size_bytes=int(row["bytes"]),
        xor_hash=int(row["xor_hash"], 16),
        sum_hash=int(row["sum_hash"], 16),
        first_offset=int(row["first_offset"]),
        last_offset=int(row["last_offset"]),
        late=int(row["late"]),
    )
    return CountsReport(
        producer=str(row["producer"]),
        session=str(row["session"]),
        sequence=int(row["sequence"]),
        part=int(row["part"]),
        topic=str(row["topic"]),
        topic_id=str(row["topic_id"]),
        partition=int(row["partition"]),
        window_start_ms=int(row["window_start_ms"]),
        window_ms=_positive(row["window_ms"]),
        counts=counts,
        sent_ms=int(row["sent_ms"]),
    )


def _positive(value: Any) -> int:
    if int(value) <= 0:
        raise ValueError(f"{value} is no width of a window")
    return int(value)


def _text(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
