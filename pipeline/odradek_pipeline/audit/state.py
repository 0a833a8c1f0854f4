"""All that the audit keeps between two collections, as one value: reports, tiers, verdicts, watermarks, waivers.

It is one JSON document, and a commit replaces it whole. The tables that jobs read are made from it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from odradek.client.audit.counts import Counts
from odradek_pipeline.audit.facts import ReportKey, Reports, Session, WindowOfPartition
from odradek_pipeline.audit.verdicts import Waiver, WindowVerdict
from odradek_pipeline.audit.watermarks import Watermark
from odradek_pipeline.runs.ranges import require_format

FORMAT: Final = 1


@dataclass(slots=True)
class TierState:
    """One tier of one topic. `positions` are the offsets that were counted up to, in the tier's own log or table."""

    topic: str
    topic_id: str
    cluster_id: str | None
    positions: dict[int, int] = field(default_factory=dict)
    high_time_ms: int = -1
    counts: dict[WindowOfPartition, Counts] = field(default_factory=dict)


@dataclass(slots=True)
class TopicState:
    """One audited topic. Windows before `since_ms` are not judged: no producer reported yet, or they are forgotten."""

    topic: str
    topic_id: str
    cluster_id: str | None
    window_ms: int
    lateness_ms: int
    since_ms: int
    tiers: dict[str, TierState] = field(default_factory=dict)
    verdicts: dict[str, dict[int, WindowVerdict]] = field(default_factory=dict)
    watermarks: dict[str, Watermark] = field(default_factory=dict)


@dataclass(slots=True)
class AuditState:
    """The whole. `version` counts commits."""

    version: int = 0
    committed_ms: int = 0
    audit_topic_id: str = ""
    positions: dict[int, int] = field(default_factory=dict)
    reports: Reports = field(default_factory=Reports)
    topics: dict[str, TopicState] = field(default_factory=dict)
    waivers: list[Waiver] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Compressed JSON."""
        reports = self.reports
        content = {
            "format": FORMAT,
            "version": self.version,
            "committed_ms": self.committed_ms,
            "audit_topic_id": self.audit_topic_id,
            "positions": _rows_by_number(self.positions),
            "sessions": [asdict(one) for one in reports.sessions.values()],
            "reports": [
                [*key, sequence, *_counts_row(counts)] for key, (sequence, counts) in reports.counts.items()
            ],
            "windows_ms": {topic: sorted(widths) for topic, widths in reports.windows_ms.items()},
            "forgotten": reports.forgotten,
            "topics": [_topic_row(one) for one in self.topics.values()],
            "waivers": [asdict(one) for one in self.waivers],
        }
        return zlib.compress(json.dumps(content, separators=(",", ":")).encode())

    @staticmethod
    def from_bytes(content: bytes, where: str) -> AuditState:
        """Raises RecordLostError for a state of a later version of this program."""
        row = json.loads(zlib.decompress(content))
        require_format(row, FORMAT, where)
        reports = Reports()
        for one in row["sessions"]:
            reports.sessions[one["session"]] = Session(**{**one, "topics": tuple(one["topics"])})
        for one in row["reports"]:
            reports.counts[ReportKey(*one[:6])] = (int(one[6]), _counts(one[7:]))
        reports.windows_ms = {topic: set(widths) for topic, widths in row["windows_ms"].items()}
        reports.forgotten = dict(row["forgotten"])
        return AuditState(
            version=int(row["version"]),
            committed_ms=int(row["committed_ms"]),
            audit_topic_id=str(row["audit_topic_id"]),
            positions=_by_number(row["positions"]),
            reports=reports,
            topics={one["topic"]: _topic(one) for one in row["topics"]},
            waivers=[Waiver(**one) for one in row["waivers"]],
        )


def _topic_row(one: TopicState) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "topic_id": one.topic_id,
        "cluster_id": one.cluster_id,
        "window_ms": one.window_ms,
        "lateness_ms": one.lateness_ms,
        "since_ms": one.since_ms,
        "tiers": {name: _tier_row(tier) for name, tier in one.tiers.items()},
        "verdicts": {
            name: [asdict(verdict) for verdict in found.values()] for name, found in one.verdicts.items()
        },
        "watermarks": {name: asdict(mark) for name, mark in one.watermarks.items()},
    }


def _topic(row: Mapping[str, Any]) -> TopicState:
    return TopicState(
        topic=row["topic"],
        topic_id=row["topic_id"],
        cluster_id=row["cluster_id"],
        window_ms=row["window_ms"],
        lateness_ms=row["lateness_ms"],
        since_ms=row["since_ms"],
        tiers={name: _tier(tier) for name, tier in row["tiers"].items()},
        verdicts={
            name: {one["start_ms"]: WindowVerdict(**one) for one in found}
            for name, found in row["verdicts"].items()
        },
        watermarks={name: Watermark(**mark) for name, mark in row["watermarks"].items()},
    )


def _tier_row(one: TierState) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "topic_id": one.topic_id,
        "cluster_id": one.cluster_id,
        "positions": _rows_by_number(one.positions),
        "high_time_ms": one.high_time_ms,
        "counts": [[*at, *_counts_row(counts)] for at, counts in one.counts.items()],
    }


def _tier(row: Mapping[str, Any]) -> TierState:
    return TierState(
        topic=row["topic"],
        topic_id=row["topic_id"],
        cluster_id=row["cluster_id"],
        positions=_by_number(row["positions"]),
        high_time_ms=row["high_time_ms"],
        counts={WindowOfPartition(one[0], one[1]): _counts(one[2:]) for one in row["counts"]},
    )


def _counts_row(counts: Counts) -> list[int]:
    return [
        counts.count,
        counts.size_bytes,
        counts.xor_hash,
        counts.sum_hash,
        counts.first_offset,
        counts.last_offset,
        counts.late,
    ]


def _counts(row: Iterable[int]) -> Counts:
    return Counts(*row)


def _rows_by_number(positions: Mapping[int, int]) -> list[list[int]]:
    return [[number, offset] for number, offset in sorted(positions.items())]


def _by_number(rows: Iterable[Iterable[int]]) -> dict[int, int]:
    return {int(number): int(offset) for number, offset in rows}
