"""`snapshot`: the last value of each key of a topic up to fixed offsets, as a table with one row for each key.

A second snapshot reads only what is new, and changes the rows of its keys. Positions and rows are one commit.
"""

from __future__ import annotations

from odradek_pipeline.loading.snapshot_settings import SnapshotSettings
from odradek_pipeline.runs.positions import position
from odradek_pipeline.work.command import Command, Console, Summary


def run(settings: SnapshotSettings, console: Console) -> Summary:
    """Bring the table to the topics' last values. Raises PipelineError."""
    from odradek_pipeline.loading.snapshotting import SnapshotRun
    from odradek_pipeline.work.worker import open_worker

    stop = position(settings.stop)
    with open_worker(settings, settings.client_settings(), console) as work:
        return SnapshotRun(work, settings, stop, console).run()


COMMAND = Command("snapshot", "Keep the last value of each key of a topic in a table.", SnapshotSettings, run)
