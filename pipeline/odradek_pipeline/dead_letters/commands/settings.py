"""The settings that the commands of dead letters share."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    OutputSettings,
    ReadingSettings,
    ReportSettings,
    SparkSettings,
)


@dataclass(frozen=True, kw_only=True)
class LetterSettings:
    """The choice of dead letters."""

    topic: str = setting("The topic of dead letters.", metavar="NAME")
    attempts_max: int = setting(
        "A record that was tried so often is not tried again: its last letter stays in the topic.",
        default=3,
        at_least=1,
    )


@dataclass(frozen=True, kw_only=True)
class RetrySettings(
    LetterSettings, BrokerConnectionSettings, OutputSettings, ReadingSettings, SparkSettings, ReportSettings
):
    """The settings of `dead-letters retry`."""

    on_bad_record: str = setting(
        "What to do with a record that cannot be read again: fail, or write a letter with one attempt more.",
        default="dead-letter",
        choices=("fail", "dead-letter"),
    )
    bad_share_max: float = setting(
        "A run with a larger share of records that cannot be read again fails, and writes nothing.",
        default=1.0,
        metavar="SHARE",
        at_least=0,
    )
    commit_letters: int = setting(
        "How many letters one commit of the table takes at most.", default=1000, at_least=1
    )
