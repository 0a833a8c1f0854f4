"""`complete_until`: the time up to which a topic is complete at a tier. It never goes back, and carries a version.

A window that reopens below it raises the version instead. A job that has read the window asks for no reopening since
the version it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.client.audit.counts import window_start
from odradek_pipeline.audit.facts import Session
from odradek_pipeline.audit.verdicts import TierQuestion, WindowVerdict

NEVER_MS = -1


@dataclass(frozen=True, slots=True)
class Watermark:
    """Of one topic at one tier. `complete_until_ms` is -1 before the first window passed."""

    complete_until_ms: int = NEVER_MS
    version: int = 0
    blocked_by: str = ""


def advance_watermark(
    before: Watermark,
    question: TierQuestion,
    sessions: Iterable[Session],
    tier: str,
    previous: Mapping[int, WindowVerdict],
    verdicts: Mapping[int, WindowVerdict],
) -> Watermark:
    """The watermark after new verdicts. Its version rises by one when windows below it reopened."""
    has_reopened = any(
        start_ms in previous and verdict.version > previous[start_ms].version
        for start_ms, verdict in verdicts.items()
    )
    until_ms, blocked_by = _reach(question, list(sessions), tier, verdicts)
    return Watermark(
        complete_until_ms=max(before.complete_until_ms, until_ms),
        version=before.version + has_reopened,
        blocked_by=blocked_by,
    )


def find_reopened(verdicts: Iterable[WindowVerdict], until_ms: int, version: int) -> list[WindowVerdict]:
    """The windows before a time that reopened after a version."""
    return [one for one in verdicts if one.start_ms < until_ms and one.version > version]


def _reach(
    question: TierQuestion, sessions: list[Session], tier: str, verdicts: Mapping[int, WindowVerdict]
) -> tuple[int, str]:
    if not sessions:
        return NEVER_MS, "no producer reports counts of this topic"
    counted = [one for one in sessions if not question.is_waived(one)]
    lacking = [one for one in counted if one.lacks]
    if lacking:
        return NEVER_MS, f"reports of {lacking[0].lacks} records of producer {lacking[0]} are missing"
    open_ = [one for one in counted if not one.is_closed]
    if open_:
        slowest = min(open_, key=lambda one: question.low_time_ms(one, tier))
        low_ms = question.low_time_ms(slowest, tier)
        is_dead = slowest.is_dead(question.now_ms)
        blocked_by = f"producer {slowest} {'fell silent' if is_dead else 'may still send'}"
    else:
        low_ms = max(question.low_time_ms(one, tier) for one in sessions)
        blocked_by = "all producers have ended"
    until_ms = window_start(low_ms, question.window_ms)
    for start_ms, verdict in sorted(verdicts.items()):
        if not verdict.is_passing:
            if start_ms < until_ms:
                start = datetime.fromtimestamp(start_ms / 1000, UTC)
                return start_ms, f"window {start:%Y-%m-%dT%H:%M:%SZ}: {verdict.word}, {verdict.reason}"
            break
    return until_ms, blocked_by


def format_time(milliseconds: int) -> str | None:
    """A time in UTC for people; None for none."""
    if milliseconds < 0:
        return None
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def watermark_row(topic: str, tier: str, mark: Watermark) -> dict[str, Any]:
    return {
        "topic": topic,
        "tier": tier,
        "complete_until": format_time(mark.complete_until_ms),
        "version": mark.version,
        "blocked_by": mark.blocked_by,
    }
