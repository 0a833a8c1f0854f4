"""The settings of `audit`'s subcommands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from odradek.foundation.settings.declaration import OneOf, integer, long, text, words
from odradek_pipeline.settings.declared import duration, setting
from odradek_pipeline.settings.groups import (
    BrokerConnectionSettings,
    OutputSettings,
    ReportSettings,
    SparkSettings,
)

TIERS: Final = OneOf("stored", "loaded", "mirrored")


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """The location of the audit. Spark is started for folders that are not of this machine alone."""

    audit: str = setting(
        text(None, "The audit's folder or URL: its state, and tables of Parquet."),
        metavar="PATH",
        is_required=True,
    )


@dataclass(frozen=True, kw_only=True)
class LoadedTableSettings(OutputSettings):
    """The table that was loaded, where there is one."""

    output: str = setting(
        text("", "The table that topics are loaded into: a folder or URL, or a table's name for Iceberg."),
        metavar="PATH",
    )


@dataclass(frozen=True, kw_only=True)
class LetterTopicSettings:
    dead_letter_topic: tuple[str, ...] = setting(
        words(
            (),
            "A topic of dead letters, whose records count as read. May be repeated. Without it: each topic with `.dlq` "
            "behind its name, where there is one.",
        ),
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class CollectSettings:
    """Compare what was produced with each later tier, by window."""

    report: ReportSettings
    spark: SparkSettings
    folder: AuditSettings
    letters: LetterTopicSettings
    table: LoadedTableSettings
    brokers: BrokerConnectionSettings
    topic: tuple[str, ...] = setting(
        words((), "A topic to audit. May be repeated."), metavar="NAME", is_required=True
    )
    lateness_ms: int = setting(
        duration(
            "10m",
            "How long after its end a window may wait for a tier. Then it is missing, duplicated, changed or stalled.",
        ),
        key="lateness",
        metavar="DURATION",
    )
    since: str | None = setting(
        text(None, "Where the audit begins; without it, with the first window that a producer reported."),
        metavar="TIME",
    )
    keep_ms: int = setting(
        duration(
            "7d", "How long windows that passed are remembered. What comes for older ones is not judged."
        ),
        key="keep",
        metavar="DURATION",
    )
    mirror_bootstrap: str | None = setting(
        text(
            None,
            "The brokers of a cluster that mirrors the topics: they are compared as the tier `mirrored`.",
        ),
        metavar="HOST:PORT,…",
    )
    mirror_prefix: str = setting(text("", "What a topic's name has before it there."), metavar="TEXT")
    audit_topic: str = setting(text("__odradek_audit", "Where producers report."), metavar="NAME")
    on_recreated: str = setting(
        text(
            "fail",
            "What to do when a topic was deleted and made again: fail, or start again with the new one.",
            OneOf("fail", "start-again"),
        )
    )


@dataclass(frozen=True, kw_only=True)
class VerdictsSettings:
    """Show the verdicts of the last collection."""

    report: ReportSettings
    spark: SparkSettings
    folder: AuditSettings
    topic: tuple[str, ...] = setting(
        words((), "A topic. May be repeated; all topics without it."), metavar="NAME"
    )
    tier: str | None = setting(text(None, "One tier alone.", TIERS))
    count: int = setting(integer(50, "How many windows to show; 0 shows all.", 0))


@dataclass(frozen=True, kw_only=True)
class WaitSettings:
    """Wait until a topic is complete up to a time."""

    report: ReportSettings
    spark: SparkSettings
    folder: AuditSettings
    topic: str = setting(text(None, "The topic."), metavar="NAME", is_required=True)
    until: str = setting(
        text(None, "The time up to which it has to be complete."), metavar="TIME", is_required=True
    )
    tier: str = setting(text("loaded", "The tier that has to be complete.", TIERS))
    timeout_ms: int = setting(
        duration("1h", "How long to wait; 0 looks once."), key="timeout", metavar="DURATION"
    )
    since_version: int | None = setting(
        long(
            None,
            "The version that a job has read: windows that reopened since then end the wait with `reopened`.",
        ),
        metavar="VERSION",
    )
    every_ms: int = setting(duration("5s", "How often to look."), key="every", metavar="DURATION")


@dataclass(frozen=True, kw_only=True)
class WaiveSettings:
    """Accept windows as they are, or a session as ended."""

    report: ReportSettings
    spark: SparkSettings
    folder: AuditSettings
    topic: str = setting(text(None, "The topic."), metavar="NAME", is_required=True)
    start: str | None = setting(text(None, "The first window to accept."), metavar="TIME")
    until: str | None = setting(text(None, "The first that is not accepted."), metavar="TIME")
    tier: str | None = setting(text(None, "One tier alone.", TIERS))
    session: str | None = setting(
        text(None, "A producer's session that will not come back: it is waited for no more."), metavar="ID"
    )
    reason: str = setting(text(None, "Why, for those that read it later."), metavar="TEXT", is_required=True)


@dataclass(frozen=True, kw_only=True)
class TilesSettings:
    """Compare a table with the log by offsets, and name what nothing explains."""

    report: ReportSettings
    spark: SparkSettings
    letters: LetterTopicSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    topic: tuple[str, ...] = setting(
        words((), "A topic to look at. May be repeated; all that the table holds without it."), metavar="NAME"
    )
    isolation: str = setting(
        text("read_committed", "How the table was loaded.", OneOf("read_committed", "read_uncommitted"))
    )
