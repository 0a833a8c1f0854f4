"""`audit verdicts`: the windows of a topic as the last collection judged them, those that do not pass first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from odradek_pipeline.audit.commands.settings import (
    TIERS,
    AuditSettings,
    format_time,
    open_folder,
    watermark_row,
)
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import Command, Console, ReportSettings, Summary


@dataclass(frozen=True, kw_only=True)
class VerdictsSettings(AuditSettings, ReportSettings):
    """The settings of `audit verdicts`."""

    topic: tuple[str, ...] = setting(
        "A topic. May be repeated; all topics without it.", default=(), metavar="NAME"
    )
    tier: str | None = setting("One tier alone.", default=None, choices=TIERS)
    count: int = setting("How many windows to show; 0 shows all.", default=50, at_least=0)


def run(settings: VerdictsSettings, console: Console) -> Summary:
    """The verdicts. Raises NotFoundError without an audit."""
    with open_folder(settings.audit, settings, console) as folder:
        state = folder.require_newest()
    found = [
        (one.is_passing, -one.start_ms, topic.topic, tier, one)
        for topic in state.topics.values()
        if not settings.topic or topic.topic in settings.topic
        for tier, verdicts in topic.verdicts.items()
        if settings.tier in (None, tier)
        for one in verdicts.values()
    ]
    found.sort(key=lambda row: row[:4])
    words = Counter(one.word for *_, one in found)
    marks = [
        watermark_row(topic.topic, tier, mark)
        for topic in state.topics.values()
        for tier, mark in topic.watermarks.items()
    ]
    rows = [
        {
            "topic": topic,
            "tier": tier,
            "window_start": format_time(one.start_ms),
            "verdict": one.word,
            "expected": one.expected,
            "found": one.found,
            "late": one.late,
            "partitions": one.partitions,
            "reason": one.reason,
            "version": one.version,
        }
        for _, _, topic, tier, one in found[: settings.count or None]
    ]
    facts = {
        "audit": settings.audit,
        "version": state.version,
        "windows": len(found),
        **dict(sorted(words.items())),
        "watermarks": marks,
    }
    return Summary(f"{settings.audit}: {len(found)} verdicts", facts, rows, rows_name="verdicts")


COMMAND = Command("audit verdicts", "Show the verdicts of the last collection.", VerdictsSettings, run)
