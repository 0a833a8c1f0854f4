"""`stream`: a topic's records into a table, batch by batch, until it is stopped. Each batch is one commit.

A batch is planned by the table's own record, as a load is. There is no checkpoint that could be lost or disagree with
the table: docs/design/0015-streams-into-tables.md has the reasons.
"""

from __future__ import annotations

from odradek_pipeline.errors import PipelineSettingError
from odradek_pipeline.loading.stream_settings import StreamSettings
from odradek_pipeline.work.command import Command, Console, Summary


def run(settings: StreamSettings, console: Console) -> Summary:
    """Load batches until a stop. Raises PipelineError."""
    limit = settings.max_offsets_per_trigger
    if limit is not None and limit < settings.min_offsets_per_trigger:
        raise PipelineSettingError(
            f"--max-offsets-per-trigger {limit} is below --min-offsets-per-trigger {settings.min_offsets_per_trigger}"
        )
    pace = (settings.trigger_ms, settings.max_trigger_delay_ms, settings.max_outage_ms)
    from odradek_pipeline.loading.stopping import stop_requests
    from odradek_pipeline.loading.streaming import Stream, StreamPace
    from odradek_pipeline.work.worker import open_worker

    with open_worker(settings, settings.client_settings(), console) as work, stop_requests() as stop:
        return Stream(work, settings, StreamPace(*pace), console, stop).run()


COMMAND = Command(
    "stream", "Load a topic's records into a table batch by batch, until it is stopped.", StreamSettings, run
)
