"""`dead-letters retry`: decodes dead letters again after a change of the schema, into the table of their topic."""

from __future__ import annotations

from odradek_pipeline.commands.command import Command, Console, Summary
from odradek_pipeline.commands.dead_letters.settings import RetrySettings


def run(settings: RetrySettings, console: Console) -> Summary:
    """Decode all that wait now. Raises PipelineError."""
    from odradek_pipeline.commands.dead_letters.retry import LetterRetry
    from odradek_pipeline.commands.work import open_worker

    with open_worker(settings, settings.client_settings(), console) as work:
        return LetterRetry(work, settings).run()


COMMAND = Command(
    "dead-letters retry", "Decode dead letters again, into the table that they belong to.", RetrySettings, run
)
