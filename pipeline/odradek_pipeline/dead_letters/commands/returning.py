"""`dead-letters return`: sends dead letters back to their topics, each once, to be loaded as any record is."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.dead_letters.commands.settings import LetterSettings
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    Command,
    Console,
    ReportSettings,
    Summary,
)


@dataclass(frozen=True, kw_only=True)
class ReturnSettings(LetterSettings, BrokerConnectionSettings, ReportSettings):
    """The settings of `dead-letters return`."""

    batch_letters: int = setting("How many letters one transaction sends back.", default=500, at_least=1)


def run(settings: ReturnSettings, console: Console) -> Summary:
    """Send back all that wait now. Raises PipelineError."""
    from odradek_pipeline.connection.session import connection_of
    from odradek_pipeline.dead_letters.returning import return_letters

    returned = return_letters(
        connection_of(None, settings.client_settings()).settings,
        settings.topic,
        attempts_max=settings.attempts_max,
        batch_letters=settings.batch_letters,
        steps=console.steps,
    )
    facts = {
        "topic": settings.topic,
        "returned": returned.letters,
        "exhausted": returned.exhausted,
        "repeated": returned.repeated,
        "other_records": returned.others,
    }
    rows = [{"topic": name, "records": count} for name, count in sorted(returned.by_topic.items())]
    return Summary(
        f"{returned.letters} dead letters of {settings.topic} returned", facts, rows, rows_name="topics"
    )


COMMAND = Command(
    "dead-letters return", "Send dead letters back to their topics, each once.", ReturnSettings, run
)
