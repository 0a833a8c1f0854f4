"""A state judged: verdicts and watermarks of a topic from what the state holds, and old windows forgotten."""

from __future__ import annotations

from odradek_pipeline.audit.facts import MIRRORED, TierFacts
from odradek_pipeline.audit.state import AuditState, TierState
from odradek_pipeline.audit.verdicts import TierQuestion, empty_windows, judge
from odradek_pipeline.audit.watermarks import Watermark, advance_watermark


def judge_topic(state: AuditState, topic: str, now_ms: int) -> None:
    """Set the verdicts and watermarks of one topic, at each tier that was counted."""
    known = state.topics[topic]
    produced = state.reports.sum_produced(topic, known.topic_id)
    sessions = state.reports.sessions_of(topic)
    if produced and known.since_ms < 0:
        known.since_ms = min(at.start_ms for at in produced)
    if known.since_ms < 0:
        return
    question = TierQuestion(
        topic=topic,
        window_ms=known.window_ms,
        lateness_ms=known.lateness_ms,
        now_ms=now_ms,
        since_ms=known.since_ms,
        waivers=tuple(state.waivers),
    )
    for name, tier in known.tiers.items():
        before = known.watermarks.get(name, Watermark())
        facts = facts_of(name, tier)
        counted = {at.start_ms for counts in (produced, facts.counts) for at in counts}
        empty = empty_windows(question, counted, before.complete_until_ms)
        previous = {**empty, **known.verdicts.get(name, {})}
        verdicts = judge(question, produced, sessions, facts, previous, before.version + 1)
        known.watermarks[name] = advance_watermark(before, question, sessions, name, previous, verdicts)
        known.verdicts[name] = verdicts


def facts_of(name: str, tier: TierState) -> TierFacts:
    """A tier as it is judged. A mirror has offsets of its own, which say nothing about the topic's."""
    ends = {} if name == MIRRORED else tier.positions
    return TierFacts(name, tier.counts, ends, tier.high_time_ms)


def forget(state: AuditState, topic: str, keep_ms: int) -> int:
    """Forget windows that passed at all tiers more than `keep_ms` before `complete_until`. Returns how many left.

    Records that come for such a window later are no longer judged.
    """
    known = state.topics[topic]
    if not known.watermarks:
        return 0
    before_ms = min(one.complete_until_ms for one in known.watermarks.values()) - keep_ms
    if before_ms <= known.since_ms:
        return 0
    failing = [
        one.start_ms
        for verdicts in known.verdicts.values()
        for one in verdicts.values()
        if not one.is_passing and one.start_ms < before_ms
    ]
    before_ms = min([before_ms, *failing])
    count = 0
    known.since_ms = max(known.since_ms, before_ms)
    state.reports.forget(topic, before_ms)
    for tier in known.tiers.values():
        tier.counts = {at: one for at, one in tier.counts.items() if at.start_ms >= before_ms}
    for name, verdicts in known.verdicts.items():
        kept = {start_ms: one for start_ms, one in verdicts.items() if start_ms >= before_ms}
        count += len(verdicts) - len(kept)
        known.verdicts[name] = kept
    return count
