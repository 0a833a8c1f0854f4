"""The record of a run, which its output's own commit carries: ids, ranges, and all that the output holds after it.

A restart needs the newest record alone, however many there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from odradek_pipeline.runs.queries import QueryState
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, require_format

FORMAT: Final = 1
LOAD: Final = "load"
REPLAY: Final = "replay"
STREAM: Final = "stream"
SNAPSHOT: Final = "snapshot"
RETRY: Final = "retry"
REFRESH: Final = "refresh"
VACUUM: Final = "vacuum"
KINDS: Final = (LOAD, REPLAY, STREAM, SNAPSHOT, RETRY, REFRESH, VACUUM)
"""`retry` adds rows of records that could not be read before. `refresh` repeats the vector above commits of others.
`vacuum` fences runs whose files are removed."""
EXTENDING: Final = (LOAD, STREAM)
"""Runs whose ranges begin where the output ends."""
REPLACING: Final = (REPLAY, SNAPSHOT)
"""Runs whose rows take the place of others."""
QUERY: Final = "query"
"""The detail of a stream's record that names its query."""


@dataclass(frozen=True, slots=True)
class DeadCount:
    """The number of records of one partition that a run sent to the dead letters: all of them lie in `within`."""

    within: OffsetRange
    count: int

    def as_json(self) -> dict[str, Any]:
        return {**self.within.as_json(), "count": self.count}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> DeadCount:
        return DeadCount(OffsetRange.from_json(row), int(row["count"]))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. `number` counts the runs of the output; times are in milliseconds since 1970."""

    run: str
    kind: str
    number: int
    cluster_id: str | None
    ranges: tuple[OffsetRange, ...]
    holdings: Holdings
    started_ms: int
    committed_ms: int = 0
    lost: tuple[OffsetRange, ...] = ()
    """Offsets that the log no longer had, which the run was allowed to pass over."""
    replaced: tuple[str, ...] = ()
    """Runs that a replay was asked to do again."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The additions of a kind: the fenced runs of a vacuum, a stream's query."""
    queries: Mapping[str, QueryState] = field(default_factory=dict)
    """The streams of the output by name. Every record repeats them."""
    columns: tuple[Mapping[str, Any], ...] = ()
    """The columns of decoded records, as Spark's JSON of fields. Each record has all that the table has."""
    dead: tuple[DeadCount, ...] = ()
    """The records that could not be read and lie among the dead letters: rows, these and gaps make up the span."""
    scope: tuple[OffsetRange, ...] = ()
    """Of a snapshot: the offsets whose rows it replaces, which are whole partitions."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """The topics whose last values the output has, each with the time at which a snapshot last asked for its ends.

    Every record repeats them. An output has either records or last values."""

    @property
    def span(self) -> int:
        return sum(one.span for one in self.ranges)

    @property
    def dead_count(self) -> int:
        return sum(one.count for one in self.dead)

    @property
    def replacing(self) -> tuple[OffsetRange, ...]:
        """The ranges in which the rows of a run in REPLACING take the place of others."""
        return self.scope or self.ranges

    def with_commit_time(self, moment_ms: int) -> RunRecord:
        return replace(self, committed_ms=moment_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run": self.run,
            "kind": self.kind,
            "number": self.number,
            "cluster_id": self.cluster_id,
            "started_ms": self.started_ms,
            "committed_ms": self.committed_ms,
            "ranges": [one.as_json() for one in self.ranges],
            "lost": [one.as_json() for one in self.lost],
            "replaced": list(self.replaced),
            "details": dict(self.details),
            "queries": {name: state.as_json() for name, state in sorted(self.queries.items())},
            "columns": [dict(one) for one in self.columns],
            "dead": [one.as_json() for one in self.dead],
            "scope": [one.as_json() for one in self.scope],
            "snapshots": dict(sorted(self.snapshots.items())),
            "holdings": self.holdings.as_json(),
        }

    def to_text(self) -> str:
        """One line of JSON, with its keys in a fixed order."""
        return json.dumps(self.as_json(), separators=(",", ":"))

    @staticmethod
    def from_json(row: Mapping[str, Any], where: str = "a record") -> RunRecord:
        """Raises RecordLostError for a record of a later format."""
        require_format(row, FORMAT, where)
        return RunRecord(
            run=str(row["run"]),
            kind=str(row["kind"]),
            number=int(row["number"]),
            cluster_id=row["cluster_id"],
            ranges=tuple(map(OffsetRange.from_json, row["ranges"])),
            holdings=Holdings.from_json(row["holdings"]),
            started_ms=int(row["started_ms"]),
            committed_ms=int(row["committed_ms"]),
            lost=tuple(map(OffsetRange.from_json, row["lost"])),
            replaced=tuple(map(str, row["replaced"])),
            details=dict(row["details"]),
            queries={
                str(name): QueryState.from_json(state) for name, state in row.get("queries", {}).items()
            },
            columns=tuple(row.get("columns", ())),
            dead=tuple(map(DeadCount.from_json, row.get("dead", ()))),
            scope=tuple(map(OffsetRange.from_json, row.get("scope", ()))),
            snapshots={str(name): int(moment_ms) for name, moment_ms in row.get("snapshots", {}).items()},
        )

    @staticmethod
    def from_text(text: str, where: str = "a record") -> RunRecord:
        return RunRecord.from_json(json.loads(text), where)


def run_id(moment_ms: int, chance: bytes) -> str:
    """A name that no other run has, and that sorts by time: `20260301T120000Z-1f0c9a2b`."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{chance.hex()}"


def began_ms(run: str) -> int | None:
    """Return the time in milliseconds at which a run began, by its name. None for a name of another kind."""
    try:
        moment = datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ")
    except ValueError:
        return None
    return int(moment.replace(tzinfo=UTC).timestamp() * 1000)
