"""The settings of `stream`: what to load as for a load, and when, how much at a time, and under which name."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.settings.declared import setting
from odradek_pipeline.settings.durations import duration_ms
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    OutputSettings,
    ReadingSettings,
    ReportSettings,
    SparkSettings,
    TopicsSettings,
)


@dataclass(frozen=True, kw_only=True)
class StreamSettings(
    TopicsSettings, BrokerConnectionSettings, OutputSettings, ReadingSettings, SparkSettings, ReportSettings
):
    """The settings of `stream`."""

    trigger: str = setting(
        "The time from the begin of a batch to that of the next, as 10s. A longer batch is followed at once.",
        default="10s",
        metavar="DURATION",
    )
    available_now: bool = setting(
        "Take what the topics have now, in as many batches as the rate asks for, and end.", default=False
    )
    max_offsets_per_trigger: int | None = setting(
        "No batch reads more offsets than this; they are shared over partitions by lag.",
        default=None,
        at_least=1,
    )
    min_offsets_per_trigger: int = setting(
        "A batch waits until there are as many offsets, or for --max-trigger-delay.", default=1, at_least=1
    )
    max_trigger_delay: str = setting(
        "How long --min-offsets-per-trigger may hold a batch back.", default="15m", metavar="DURATION"
    )
    max_outage: str = setting(
        "How long brokers may be out of reach between two batches before the stream ends.",
        default="5m",
        metavar="DURATION",
    )
    query: str | None = setting(
        "The stream's name in the table's record. One driver at a time has it. Without it: the table's own name.",
        default=None,
        metavar="NAME",
    )
    group: str | None = setting(
        "The consumer group that shows the stream's positions. Without it: odradek-stream- and the query's name.",
        default=None,
        metavar="GROUP",
    )
    show_progress: bool = setting(
        "Commit the positions to the consumer group after each batch.", default=True
    )

    @property
    def query_name(self) -> str:
        return self.query or self.output.rstrip("/").rpartition("/")[2]

    @property
    def group_id(self) -> str:
        return self.group or f"odradek-stream-{self.query_name}"

    @property
    def trigger_ms(self) -> int:
        """Raises PipelineSettingError."""
        return duration_ms(self.trigger, "--trigger")

    @property
    def max_trigger_delay_ms(self) -> int:
        """Raises PipelineSettingError."""
        return duration_ms(self.max_trigger_delay, "--max-trigger-delay")

    @property
    def max_outage_ms(self) -> int:
        """Raises PipelineSettingError."""
        return duration_ms(self.max_outage, "--max-outage")
