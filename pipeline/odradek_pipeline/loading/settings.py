"""The settings of the commands for tables."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.foundation.settings.declaration import OneOf, boolean, integer, long, text, words
from odradek_pipeline.settings.declared import duration, setting
from odradek_pipeline.settings.groups import (
    BadRecordSettings,
    BrokerConnectionSettings,
    DecodingSettings,
    MetricsSettings,
    OutputSettings,
    ReaderSettings,
    ReportSettings,
    SparkSettings,
    TopicsSettings,
)


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """Load a topic's records into a table, from where the table ends."""

    report: ReportSettings
    spark: SparkSettings
    decoding: DecodingSettings
    bad_records: BadRecordSettings
    metrics: MetricsSettings
    reading: ReaderSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    topics: TopicsSettings
    stop: str = setting(
        text("latest", "The first that is not loaded: latest, a time, or offsets as 0:1500,1:1480."),
        metavar="POSITION",
    )


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Read ranges again and replace exactly their rows."""

    report: ReportSettings
    spark: SparkSettings
    decoding: DecodingSettings
    bad_records: BadRecordSettings
    metrics: MetricsSettings
    reading: ReaderSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    run: tuple[str, ...] = setting(
        words((), "A run whose ranges are read again. May be repeated."), metavar="RUN"
    )
    since_run: str | None = setting(
        text(None, "Read the ranges of this run and of all later ones."), metavar="RUN"
    )
    topic: tuple[str, ...] = setting(
        words(
            (),
            "A topic to read again, with --start or --stop. May be repeated; all that the table holds without it.",
        ),
        metavar="NAME",
    )
    start: str | None = setting(
        text(None, "Where to begin: a time, offsets as 0:1500,1:1480, or earliest."), metavar="POSITION"
    )
    stop: str | None = setting(text(None, "The first that is left as it is."), metavar="POSITION")


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Load a topic's records into a table batch by batch, until it is stopped."""

    report: ReportSettings
    spark: SparkSettings
    decoding: DecodingSettings
    bad_records: BadRecordSettings
    metrics: MetricsSettings
    reading: ReaderSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    topics: TopicsSettings
    trigger_ms: int = setting(
        duration(
            "10s",
            "The time from the begin of a batch to that of the next, as 10s. A longer batch is followed at once.",
        ),
        key="trigger",
        metavar="DURATION",
    )
    available_now: bool = setting(
        boolean(False, "Take what the topics have now, in as many batches as the rate asks for, and end.")
    )
    max_offsets_per_trigger: int | None = setting(
        long(None, "No batch reads more offsets than this; they are shared over partitions by lag.", 1)
    )
    min_offsets_per_trigger: int = setting(
        long(1, "A batch waits until there are as many offsets, or for --max-trigger-delay.", 1)
    )
    max_trigger_delay_ms: int = setting(
        duration("15m", "How long --min-offsets-per-trigger may hold a batch back."),
        key="max_trigger_delay",
        metavar="DURATION",
    )
    max_outage_ms: int = setting(
        duration("5m", "How long brokers may be out of reach between two batches before the stream ends."),
        key="max_outage",
        metavar="DURATION",
    )
    query: str | None = setting(
        text(
            None,
            "The stream's name in the table's record. One driver at a time has it. Without it: the table's own name.",
        ),
        metavar="NAME",
    )
    group: str | None = setting(
        text(
            None,
            "The consumer group that shows the stream's positions. Without it: odradek-stream- and the query's name.",
        ),
        metavar="GROUP",
    )
    show_progress: bool = setting(
        boolean(True, "Commit the positions to the consumer group after each batch.")
    )

    @property
    def query_name(self) -> str:
        return self.query or self.table.output.rstrip("/").rpartition("/")[2]

    @property
    def group_id(self) -> str:
        return self.group or f"odradek-stream-{self.query_name}"


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings:
    """Keep the last value of each key of a topic in a table."""

    report: ReportSettings
    spark: SparkSettings
    metrics: MetricsSettings
    reading: ReaderSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    topic: tuple[str, ...] = setting(
        words((), "A topic, compacted as a rule. May be repeated; all are one commit."),
        metavar="NAME",
        is_required=True,
    )
    stop: str = setting(
        text(
            "latest",
            "The first that is not read: latest, a time, or offsets as 0:1500,1:1480. What compaction removed is gone.",
        ),
        metavar="POSITION",
    )
    whole: bool = setting(
        boolean(
            False, "Read the topics from their start, also where the table has a snapshot of them already."
        )
    )
    on_recreated: str = setting(
        text(
            "fail",
            "What to do when a topic was deleted and made again: fail, or take its values in place of the former ones.",
            OneOf("fail", "start-again"),
        )
    )


@dataclass(frozen=True, kw_only=True)
class RunsSettings:
    """Show the runs of a table, newest first."""

    report: ReportSettings
    spark: SparkSettings
    table: OutputSettings
    count: int = setting(integer(20, "How many runs to show; 0 shows all.", 0))


@dataclass(frozen=True, kw_only=True)
class PageSettings:
    """Show the runs of a table as one HTML file."""

    report: ReportSettings
    spark: SparkSettings
    brokers: BrokerConnectionSettings
    table: OutputSettings
    file: str = setting(text(None, "The HTML file to write."), metavar="FILE", is_required=True)
    count: int = setting(integer(200, "How many runs to show, the newest ones.", 1))
    audit: str | None = setting(
        text(None, "The audit's folder or URL; its verdicts become a calendar."), metavar="PATH"
    )


@dataclass(frozen=True, kw_only=True)
class VacuumSettings:
    """Remove files that are no part of a Parquet table."""

    report: ReportSettings
    spark: SparkSettings
    table: OutputSettings
    age_hours: int = setting(
        integer(
            24,
            "How long a file has been no part of the table. Readers that began before may still need younger ones.",
            0,
        )
    )
