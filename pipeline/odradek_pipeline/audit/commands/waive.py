"""`audit waive`: an operator accepts windows as they are, or takes a producer's session for ended."""

from __future__ import annotations

from odradek_pipeline.audit.collecting.tables import open_folder
from odradek_pipeline.audit.commands.settings import WaiveSettings
from odradek_pipeline.audit.judging import judge_topic
from odradek_pipeline.audit.verdicts import Waiver
from odradek_pipeline.audit.watermarks import watermark_row
from odradek_pipeline.errors import NotFoundError, PipelineSettingError
from odradek_pipeline.runs.positions import time_ms
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import now_ms


def run(settings: WaiveSettings, console: Console) -> Summary:
    """Add the waiver, and judge again with what was collected. Raises PipelineError."""
    is_span = settings.start is not None and settings.until is not None
    if is_span == (settings.session is not None) or (settings.start is None) != (settings.until is None):
        raise PipelineSettingError("say what to accept: --start and --until, or else --session")
    with open_folder(settings.folder.audit, settings.spark, console) as folder:
        state = folder.require_newest()
        topic = state.topics.get(settings.topic)
        if topic is None:
            raise NotFoundError(f"{settings.folder.audit} has no topic {settings.topic!r}: collect it first")
        if settings.session is not None and settings.session not in state.reports.sessions:
            raise NotFoundError(
                f"{settings.folder.audit} has no session {settings.session}: `audit verdicts` names them"
            )
        made = Waiver(
            topic=settings.topic,
            tier=settings.tier,
            start_ms=time_ms(settings.start or "0"),
            until_ms=time_ms(settings.until or "0"),
            session=settings.session,
            reason=settings.reason,
            made_ms=now_ms(),
        )
        state.waivers.append(made)
        judge_topic(state, settings.topic, now_ms())
        folder.commit(state, now_ms())
    rows = [watermark_row(settings.topic, tier, mark) for tier, mark in topic.watermarks.items()]
    facts = {"audit": settings.folder.audit, "version": state.version, "waivers": len(state.waivers)}
    return Summary(f"waived: {settings.reason}", facts, rows, rows_name="watermarks")
