"""`dead-letters return`: sends dead letters back to their topics, each once, to be loaded as any record is."""

from __future__ import annotations

from odradek_pipeline.connection.session import connection_of
from odradek_pipeline.dead_letters.commands.settings import ReturnSettings
from odradek_pipeline.dead_letters.returning import return_letters
from odradek_pipeline.work.command import Console, Summary


def run(settings: ReturnSettings, console: Console) -> Summary:
    """Send back all that wait now. Raises PipelineError."""
    returned = return_letters(
        connection_of(None, settings.brokers.client_settings()).settings,
        settings.letters.topic,
        attempts_max=settings.letters.attempts_max,
        batch_letters=settings.batch_letters,
        steps=console.steps,
    )
    facts = {
        "topic": settings.letters.topic,
        "returned": returned.letters,
        "exhausted": returned.exhausted,
        "repeated": returned.repeated,
        "other_records": returned.others,
    }
    rows = [{"topic": name, "records": count} for name, count in sorted(returned.by_topic.items())]
    return Summary(
        f"{returned.letters} dead letters of {settings.letters.topic} returned",
        facts,
        rows,
        rows_name="topics",
    )
