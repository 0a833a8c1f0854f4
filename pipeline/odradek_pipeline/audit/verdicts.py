"""The verdict on one window of a topic at one tier: does it hold what producers wrote, and may more come?

    waived      an operator accepts the window as it is
    stalled     a producer fell silent, or its reports have gaps, or the tier stopped before the window
    waiting     a producer may still send records of the window, or the tier still has time to catch up
    complete    the tier has the same records
    late        the same, with records that came after the window was complete or after their producer's promise
    reopened    it was complete, records came after that, and the tier differs now but has time to catch up
    missing, duplicated, changed     the tier differs, and is past the window

Hashes decide beside counts, so loss and duplicates that balance each other are `changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.audit.counts import Counts
from odradek_pipeline.audit.facts import CountsByWindow, Session, TierFacts, WindowOfPartition, sum_counts

COMPLETE: Final = "complete"
LATE: Final = "late"
WAIVED: Final = "waived"
WAITING: Final = "waiting"
STALLED: Final = "stalled"
REOPENED: Final = "reopened"
MISSING: Final = "missing"
DUPLICATED: Final = "duplicated"
CHANGED: Final = "changed"
VERDICTS: Final = (
    COMPLETE,
    LATE,
    WAIVED,
    WAITING,
    STALLED,
    REOPENED,
    MISSING,
    DUPLICATED,
    CHANGED,
)
PASSING: Final = (COMPLETE, LATE, WAIVED)
"""The verdicts that let `complete_until` continue."""
FAILING: Final = (MISSING, DUPLICATED, CHANGED)

_NAMED_MAX: Final = 20  # partitions or sessions in one text


@dataclass(frozen=True, slots=True)
class Waiver:
    """An operator's word: accept windows of a time span, or take a session for closed. None stands for any."""

    topic: str
    tier: str | None = None
    start_ms: int = 0
    until_ms: int = 0
    session: str | None = None
    reason: str = ""
    made_ms: int = 0

    def covers(self, topic: str, tier: str, start_ms: int, window_ms: int) -> bool:
        """Whether it accepts the whole window at that tier."""
        is_there = self.session is None and self.topic == topic and self.tier in (None, tier)
        return is_there and self.start_ms <= start_ms and start_ms + window_ms <= self.until_ms


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """One window at one tier. `version` is that of the watermark when the window last reopened; 0 for never.

    `expected` and `found` are records; `late` are those after their producer's promise. `was_passing` stays once the
    window has passed.
    """

    start_ms: int
    word: str
    expected: int
    found: int
    late: int
    partitions: str
    reason: str
    first_seen_ms: int
    changed_ms: int
    version: int = 0
    was_passing: bool = False
    expected_sum: int = 0
    reopened_ms: int = 0

    @property
    def is_passing(self) -> bool:
        return self.word in PASSING


@dataclass(frozen=True, slots=True)
class TierQuestion:
    """The rules that a tier is judged by. Times are in milliseconds since 1970."""

    topic: str
    window_ms: int
    lateness_ms: int
    now_ms: int
    since_ms: int
    """Windows before this are not judged: no producer reported then."""
    waivers: Sequence[Waiver] = ()

    def low_time_ms(self, session: Session, tier: str) -> int:
        """The lowest time that a session may still send, carried over the spans that are waived."""
        low = session.low_time_ms
        spans = sorted(
            (one.start_ms, one.until_ms)
            for one in self.waivers
            if one.session is None and one.topic == self.topic and one.tier in (None, tier)
        )
        for start, until in spans:
            if start <= low < until:
                low = until
        return low

    def is_waived(self, session: Session) -> bool:
        return any(one.session == session.session and one.topic == self.topic for one in self.waivers)


def empty_windows(
    question: TierQuestion, start_times_ms: Iterable[int], complete_until_ms: int
) -> dict[int, WindowVerdict]:
    """The verdicts that windows before `complete_until_ms` had without any record: they were complete.

    A record that comes to one of them late opens it again, as any window that passed.
    """
    return {
        start_ms: WindowVerdict(
            start_ms=start_ms,
            word=COMPLETE,
            expected=0,
            found=0,
            late=0,
            partitions="",
            reason="",
            first_seen_ms=question.now_ms,
            changed_ms=question.now_ms,
            was_passing=True,
        )
        for start_ms in start_times_ms
        if start_ms + question.window_ms <= complete_until_ms
    }


def judge(
    question: TierQuestion,
    produced: CountsByWindow,
    sessions: Iterable[Session],
    tier: TierFacts,
    previous: Mapping[int, WindowVerdict],
    version: int,
) -> dict[int, WindowVerdict]:
    """The verdicts on all windows that anyone counted, by start. `version` is the one that a reopening gets."""
    produced_by = _group_by_start(produced)
    found_by = _group_by_start(tier.counts)
    live = [one for one in sessions if not question.is_waived(one)]
    verdicts = {}
    for start_ms in sorted({*produced_by, *found_by}):
        if start_ms >= question.since_ms:
            verdicts[start_ms] = _judge_window(
                question,
                start_ms,
                (produced_by.get(start_ms, {}), found_by.get(start_ms, {})),
                live,
                tier,
                previous.get(start_ms),
                version,
            )
    return verdicts


def _judge_window(
    question: TierQuestion,
    start_ms: int,
    counted: tuple[Mapping[int, Counts], Mapping[int, Counts]],
    live: Sequence[Session],
    tier: TierFacts,
    before: WindowVerdict | None,
    version: int,
) -> WindowVerdict:
    expected, found = sum_counts(counted[0].values()), sum_counts(counted[1].values())
    has_passed = before is not None and before.was_passing
    has_more = has_passed and before is not None and before.expected_sum != expected.sum_hash
    reopened_ms = question.now_ms if has_more else (before.reopened_ms if before is not None else 0)
    differing = _list_differences(counted[0], counted[1], by_partition=bool(tier.ends))
    word, reason = _choose_word(question, start_ms, counted, differing, live, tier, (has_passed, reopened_ms))
    if word == COMPLETE and (expected.late or reopened_ms):
        late = f"{expected.late} records" if expected.late else "records"
        word, reason = (
            LATE,
            f"{late} came after the promise of their producer, or after the window was complete",
        )
    is_new = before is None or before.word != word
    # A tier that loses what it had opens the window as much as a record that comes late.
    is_reopening = has_more or (before is not None and before.is_passing and word not in PASSING)
    return WindowVerdict(
        start_ms=start_ms,
        word=word,
        expected=expected.count,
        found=found.count,
        late=expected.late,
        partitions=_shorten_names(differing),
        reason=reason,
        first_seen_ms=question.now_ms if before is None else before.first_seen_ms,
        changed_ms=question.now_ms if is_new or before is None else before.changed_ms,
        version=version if is_reopening else (before.version if before is not None else 0),
        was_passing=has_passed or word in PASSING,
        expected_sum=expected.sum_hash,
        reopened_ms=reopened_ms,
    )


def _choose_word(
    question: TierQuestion,
    start_ms: int,
    counted: tuple[Mapping[int, Counts], Mapping[int, Counts]],
    differing: Sequence[str],
    live: Sequence[Session],
    tier: TierFacts,
    past: tuple[bool, int],
) -> tuple[str, str]:
    """The word and its reason, before late records are looked at."""
    end_ms = start_ms + question.window_ms
    if any(one.covers(question.topic, tier.tier, start_ms, question.window_ms) for one in question.waivers):
        return WAIVED, "accepted by an operator"
    if blocked := _find_obstacle(question, end_ms, live, tier.tier, has_passed=past[0]):
        return blocked
    if not differing:
        return COMPLETE, ""
    has_passed, reopened_ms = past
    grace_ms = (reopened_ms if has_passed and reopened_ms else end_ms) + question.lateness_ms
    if question.now_ms < grace_ms:
        if has_passed:
            return (
                REOPENED,
                f"{tier.tier} has until {grace_ms} ms to follow records that came after the window passed",
            )
        return WAITING, f"{tier.tier} has until {grace_ms} ms to catch up"
    produced, found = counted
    short = [
        number for number, counts in produced.items() if found.get(number, Counts()).count < counts.count
    ]
    if not tier.ends:
        short = short if sum_counts(found.values()).count < sum_counts(produced.values()).count else []
    if short:
        behind = [
            number
            for number in short
            if not tier.has_reached(WindowOfPartition(number, start_ms), produced[number], question.window_ms)
        ]
        if behind:
            return (
                STALLED,
                f"{tier.tier} stopped before partitions {_shorten_names(list(map(str, behind)))} of this window",
            )
        return MISSING, f"{tier.tier} is past this window and lacks records"
    if sum_counts(found.values()).count > sum_counts(produced.values()).count:
        return DUPLICATED, f"{tier.tier} has more records than producers reported"
    return CHANGED, f"{tier.tier} has as many records, and they are others"


def _find_obstacle(
    question: TierQuestion, end_ms: int, live: Sequence[Session], tier: str, *, has_passed: bool
) -> tuple[str, str] | None:
    """Why a window cannot be decided yet: a producer that may still send, or whose reports are not all there."""
    if has_passed:
        return None  # every producer had promised; what comes now is late
    lacking = [one for one in live if one.lacks]
    if lacking:
        one = lacking[0]
        return STALLED, f"reports of {one.lacks} records of producer {one} are missing"
    open_ = [one for one in live if not one.is_closed and question.low_time_ms(one, tier) < end_ms]
    dead = [one for one in open_ if one.is_dead(question.now_ms)]
    if dead:
        return STALLED, f"producers fell silent: {_shorten_names(list(map(str, dead)))}"
    if open_:
        return WAITING, f"producers may still send: {_shorten_names(list(map(str, open_)))}"
    return None


def _list_differences(
    produced: Mapping[int, Counts], found: Mapping[int, Counts], *, by_partition: bool
) -> list[str]:
    """The partitions that differ, each as `number: found/expected`. A tier with other partitions is compared whole."""
    if not by_partition:
        mine, theirs = sum_counts(produced.values()), sum_counts(found.values())
        if mine.is_same(theirs):
            return []
    return [
        f"{number}: {found.get(number, Counts()).count}/{produced.get(number, Counts()).count}"
        for number in sorted({*produced, *found})
        if not produced.get(number, Counts()).is_same(found.get(number, Counts()))
    ]


def _group_by_start(counts: CountsByWindow) -> dict[int, dict[int, Counts]]:
    found: dict[int, dict[int, Counts]] = {}
    for at, one in counts.items():
        found.setdefault(at.start_ms, {})[at.partition] = one
    return found


def _shorten_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_MAX])
    return shown if len(names) <= _NAMED_MAX else f"{shown} and {len(names) - _NAMED_MAX} more"
