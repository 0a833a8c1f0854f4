"""`audit verdicts`: the windows of a topic as the last collection judged them, those that do not pass first."""

from __future__ import annotations

from collections import Counter

from odradek_pipeline.audit.collecting.tables import open_folder
from odradek_pipeline.audit.commands.settings import VerdictsSettings
from odradek_pipeline.audit.watermarks import format_time, watermark_row
from odradek_pipeline.work.command import Console, Summary


def run(settings: VerdictsSettings, console: Console) -> Summary:
    """The verdicts. Raises NotFoundError without an audit."""
    with open_folder(settings.folder.audit, settings.spark, console) as folder:
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
        "audit": settings.folder.audit,
        "version": state.version,
        "windows": len(found),
        **dict(sorted(words.items())),
        "watermarks": marks,
    }
    return Summary(f"{settings.folder.audit}: {len(found)} verdicts", facts, rows, rows_name="verdicts")
