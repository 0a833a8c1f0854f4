"""`audit wait`: waits until a topic is complete at a tier up to a time, for jobs that read what is complete."""

from __future__ import annotations

import time

from odradek_pipeline.audit.collecting.tables import open_folder
from odradek_pipeline.audit.commands.settings import WaitSettings
from odradek_pipeline.audit.watermarks import Watermark, find_reopened, format_time, watermark_row
from odradek_pipeline.errors import NotFoundError, PipelineExitCode
from odradek_pipeline.runs.positions import time_ms
from odradek_pipeline.work.command import Console, Summary


def run(settings: WaitSettings, console: Console) -> Summary:
    """Wait. The exit code is 0, `incomplete` or `reopened`. Raises PipelineError."""
    until_ms = time_ms(settings.until)
    deadline = time.monotonic() + settings.timeout_ms / 1000
    every_seconds = max(settings.every_ms / 1000, 0.1)
    with open_folder(settings.folder.audit, settings.spark, console) as folder:
        while True:
            state = folder.read_newest()
            topic = None if state is None else state.topics.get(settings.topic)
            mark, reopened = Watermark(blocked_by="no collection has compared it yet"), []
            if topic is not None:
                mark = topic.watermarks.get(settings.tier, mark)
                verdicts = topic.verdicts.get(settings.tier, {}).values()
                if settings.since_version is not None:
                    reopened = find_reopened(verdicts, until_ms, settings.since_version)
            if reopened or mark.complete_until_ms >= until_ms:
                break
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                if state is None:
                    raise NotFoundError(
                        f"{settings.folder.audit} has no audit: run `odradek-pipeline audit collect` first"
                    )
                break
            time.sleep(min(every_seconds, left_seconds))
    is_complete = mark.complete_until_ms >= until_ms
    code = (
        PipelineExitCode.REOPENED
        if reopened
        else PipelineExitCode.OK
        if is_complete
        else PipelineExitCode.INCOMPLETE
    )
    facts = {
        **watermark_row(settings.topic, settings.tier, mark),
        "until": format_time(until_ms),
        "complete": is_complete,
        "reopened": [format_time(one.start_ms) for one in reopened],
    }
    word = "reopened" if reopened else "complete" if is_complete else "incomplete"
    return Summary(f"{settings.topic} at {settings.tier} is {word}", facts, exit_code=code)
