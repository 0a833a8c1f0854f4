"""The settings of `snapshot`."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    OutputSettings,
    ReaderSettings,
    ReportSettings,
    SparkSettings,
)


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings(
    BrokerConnectionSettings, OutputSettings, ReaderSettings, SparkSettings, ReportSettings
):
    """The settings of `snapshot`."""

    topic: tuple[str, ...] = setting(
        "A topic, compacted as a rule. May be repeated; all are one commit.", metavar="NAME"
    )
    stop: str = setting(
        "The first that is not read: latest, a time, or offsets as 0:1500,1:1480. What compaction removed is gone.",
        default="latest",
        metavar="POSITION",
    )
    whole: bool = setting(
        "Read the topics from their start, also where the table has a snapshot of them already.",
        default=False,
    )
    on_recreated: str = setting(
        "What to do when a topic was deleted and made again: fail, or take its values in place of the former ones.",
        default="fail",
        choices=("fail", "start-again"),
    )
