"""`audit wait`: waits until a topic is complete at a tier up to a time, for jobs that read what is complete."""

from __future__ import annotations

import time
from dataclasses import dataclass

from odradek_pipeline.audit.commands.settings import (
    TIERS,
    AuditSettings,
    format_time,
    open_folder,
    watermark_row,
)
from odradek_pipeline.errors import NotFoundError, PipelineExitCode
from odradek_pipeline.runs.positions import time_ms
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.settings.durations import duration_ms
from odradek_pipeline.work.command import Command, Console, ReportSettings, Summary


@dataclass(frozen=True, kw_only=True)
class WaitSettings(AuditSettings, ReportSettings):
    """The settings of `audit wait`."""

    topic: str = setting("The topic.", metavar="NAME")
    until: str = setting("The time up to which it has to be complete.", metavar="TIME")
    tier: str = setting("The tier that has to be complete.", default="loaded", choices=TIERS)
    timeout: str = setting("How long to wait; 0 looks once.", default="1h", metavar="DURATION")
    since_version: int | None = setting(
        "The version that a job has read: windows that reopened since then end the wait with `reopened`.",
        default=None,
        metavar="VERSION",
    )
    every: str = setting("How often to look.", default="5s", metavar="DURATION")


def run(settings: WaitSettings, console: Console) -> Summary:
    """Wait. The exit code is 0, `incomplete` or `reopened`. Raises PipelineError."""
    from odradek_pipeline.audit.watermarks import Watermark, find_reopened

    until_ms = time_ms(settings.until)
    deadline = time.monotonic() + duration_ms(settings.timeout, "--timeout") / 1000
    every_seconds = max(duration_ms(settings.every, "--every") / 1000, 0.1)
    with open_folder(settings.audit, settings, console) as folder:
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
                        f"{settings.audit} has no audit: run `odradek-pipeline audit collect` first"
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


COMMAND = Command("audit wait", "Wait until a topic is complete up to a time.", WaitSettings, run)
