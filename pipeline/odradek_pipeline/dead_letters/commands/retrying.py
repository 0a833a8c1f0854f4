"""`dead-letters retry`: decodes dead letters again after a change of the schema, into the table of their topic."""

from __future__ import annotations

from odradek_pipeline.dead_letters.commands.settings import RetrySettings
from odradek_pipeline.work.command import Command, Console, Summary


def run(settings: RetrySettings, console: Console) -> Summary:
    """Decode all that wait now. Raises PipelineError."""
    from odradek_pipeline.dead_letters.commands.retry import LetterRetry
    from odradek_pipeline.work.worker import open_worker

    with open_worker(settings, settings.client_settings(), console) as work:
        return LetterRetry(work, settings).run()


COMMAND = Command(
    "dead-letters retry", "Decode dead letters again, into the table that they belong to.", RetrySettings, run
)
