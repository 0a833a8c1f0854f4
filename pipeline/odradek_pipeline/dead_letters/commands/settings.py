"""The settings of the commands of dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.foundation.settings.declaration import OneOf, double, integer, text
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.settings.groups import (
    BadRecordSettings,
    BrokerConnectionSettings,
    DecodingSettings,
    MetricsSettings,
    OutputSettings,
    ReaderSettings,
    ReportSettings,
    SparkSettings,
)


@dataclass(frozen=True, kw_only=True)
class LetterSettings:
    topic: str = setting(text(None, "The topic of dead letters."), metavar="NAME", is_required=True)
    attempts_max: int = setting(
        integer(
            3, "A record that was tried so often is not tried again: its last letter stays in the topic.", 1
        )
    )


@dataclass(frozen=True, kw_only=True)
class ListSettings:
    """Show dead letters: where they are from, and why they are here."""

    report: ReportSettings
    brokers: BrokerConnectionSettings
    letters: LetterSettings
    count: int = setting(integer(20, "How many letters to show, the newest ones.", 0))


@dataclass(frozen=True, kw_only=True)
class ReturnSettings:
    """Send dead letters back to their topics, each once."""

    report: ReportSettings
    brokers: BrokerConnectionSettings
    letters: LetterSettings
    batch_letters: int = setting(integer(500, "How many letters one transaction sends back.", 1))


@dataclass(frozen=True, kw_only=True)
class RetriedRecordSettings(BadRecordSettings):
    """As of records that are read first, but for the defaults."""

    on_bad_record: str = setting(
        text(
            "dead-letter",
            "What to do with a record that cannot be read again: fail, or write a letter with one attempt more.",
            OneOf("fail", "dead-letter"),
        )
    )
    dead_letter_topic: str | None = setting(
        text(
            None,
            "The topic of letters with one attempt more; made when missing. Without it: the topic that is retried.",
        ),
        metavar="NAME",
    )
    bad_share_max: float = setting(
        double(
            1.0,
            "A run with a larger share of records that cannot be read again fails, and writes nothing.",
            0,
            1,
        ),
        metavar="SHARE",
    )


@dataclass(frozen=True, kw_only=True)
class RetrySettings:
    """Decode dead letters again, into the table that they belong to."""

    report: ReportSettings
    spark: SparkSettings
    decoding: DecodingSettings
    bad_records: RetriedRecordSettings
    metrics: MetricsSettings
    reading: ReaderSettings
    table: OutputSettings
    brokers: BrokerConnectionSettings
    letters: LetterSettings
    commit_letters: int = setting(integer(1000, "How many letters one commit of the table takes at most.", 1))
