"""The audit's facts: sessions of producers, and each tier's counts for each window of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from odradek.client.audit.counts import Counts
from odradek.client.audit.reports import CountsReport, SessionReport

PRODUCED: Final = "produced"
STORED: Final = "stored"
LOADED: Final = "loaded"
MIRRORED: Final = "mirrored"
TIERS: Final = (STORED, LOADED, MIRRORED)


class WindowOfPartition(NamedTuple):
    """One window of one partition, by its start in milliseconds."""

    partition: int
    start_ms: int


class ReportKey(NamedTuple):
    """The order by which a report of counts replaces an earlier one."""

    session: str
    part: int
    topic: str
    topic_id: str
    partition: int
    start_ms: int


CountsByWindow = Mapping[WindowOfPartition, Counts]


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one producer by its newest heartbeat. `counted` is what its reports add up to."""

    producer: str
    session: str
    sequence: int
    topics: tuple[str, ...]
    count: int
    low_time_ms: int
    lease_ms: int
    sent_ms: int
    is_closed: bool
    counted: int = 0

    @property
    def lacks(self) -> int:
        """Records that the heartbeat has and no report: reports were lost."""
        return max(self.count - self.counted, 0)

    def is_dead(self, now_ms: int) -> bool:
        """Whether it fell silent without an end."""
        return not self.is_closed and self.sent_ms + self.lease_ms < now_ms

    def __str__(self) -> str:
        return f"{self.producer} ({self.session})"


@dataclass(frozen=True, slots=True)
class TierFacts:
    """The counts of one tier for one topic.

    `ends` are the offsets that the tier has read up to, where it has those of the topic. Without them `high_time_ms`,
    the newest record's time, says how far it is.
    """

    tier: str
    counts: CountsByWindow
    ends: Mapping[int, int] = field(default_factory=dict)
    high_time_ms: int = -1

    def has_reached(self, at: WindowOfPartition, produced: Counts, window_ms: int) -> bool:
        """Whether the tier was past this window, so that what it lacks is lost."""
        if self.ends and produced.last_offset >= 0:
            return self.ends.get(at.partition, 0) > produced.last_offset
        return self.high_time_ms >= at.start_ms + window_ms


class Reports:
    """All reports that were read, and what they say. A later sequence of a session replaces an earlier one."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.counts: dict[ReportKey, tuple[int, Counts]] = {}
        self.windows_ms: dict[str, set[int]] = {}
        self.forgotten: dict[str, int] = {}

    def add(self, report: CountsReport | SessionReport) -> None:
        """Take one message. The same message again, or an earlier one, changes nothing."""
        if isinstance(report, SessionReport):
            for topic in report.topics:
                self.windows_ms.setdefault(topic, set()).add(report.window_ms)
            known = self.sessions.get(report.session)
            if known is None or report.sequence > known.sequence:
                self.sessions[report.session] = Session(
                    producer=report.producer,
                    session=report.session,
                    sequence=report.sequence,
                    topics=report.topics,
                    count=report.count,
                    low_time_ms=report.low_time_ms,
                    lease_ms=report.lease_ms,
                    sent_ms=report.sent_ms,
                    is_closed=report.is_closed,
                )
            return
        key = ReportKey(
            report.session,
            report.part,
            report.topic,
            report.topic_id,
            report.partition,
            report.window_start_ms,
        )
        self.windows_ms.setdefault(report.topic, set()).add(report.window_ms)
        found = self.counts.get(key)
        if found is None or report.sequence > found[0]:
            self.counts[key] = (report.sequence, report.counts)

    def sessions_of(self, topic: str) -> list[Session]:
        """The sessions that may write to a topic, each with what its reports add up to over all its topics."""
        counted = dict(self.forgotten)
        for key, (_, counts) in self.counts.items():
            counted[key.session] = counted.get(key.session, 0) + counts.count
        wrote = {key.session for key in self.counts if key.topic == topic}
        return [
            replace(one, counted=counted.get(one.session, 0))
            for _, one in sorted(self.sessions.items())
            if topic in one.topics or one.session in wrote
        ]

    def sum_produced(self, topic: str, topic_id: str) -> dict[WindowOfPartition, Counts]:
        """The records of all sessions, by window."""
        found: dict[WindowOfPartition, Counts] = {}
        for key, (_, counts) in self.counts.items():
            if (key.topic, key.topic_id) == (topic, topic_id):
                found.setdefault(WindowOfPartition(key.partition, key.start_ms), Counts()).merge(counts)
        return found

    def forget(self, topic: str, before_ms: int) -> None:
        """Keep no counts of windows before this time, but for their sum."""
        for key in [one for one in self.counts if one.topic == topic and one.start_ms < before_ms]:
            _, counts = self.counts.pop(key)
            self.forgotten[key.session] = self.forgotten.get(key.session, 0) + counts.count


def sum_counts(counts: Iterable[Counts]) -> Counts:
    summed = Counts()
    for one in counts:
        summed.merge(one)
    return summed
