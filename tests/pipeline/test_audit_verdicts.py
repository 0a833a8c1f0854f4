"""Verdicts and watermarks of the audit against random histories of producers, a tier and collections. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.client.audit.counts import Counts, digest, window_start
from odradek.client.audit.reports import CountsReport, SessionReport
from odradek_pipeline.audit.facts import Reports, WindowOfPartition
from odradek_pipeline.audit.judging import forget, judge_topic
from odradek_pipeline.audit.state import AuditState, TierState, TopicState
from odradek_pipeline.audit.verdicts import PASSING, VERDICTS, Waiver
from odradek_pipeline.audit.watermarks import find_reopened
from tests.support.examples import examples

WINDOW_MS = 10
LEASE_MS = 50


@dataclass
class World:
    """Records as they are, and what the audit was given of them. Offsets are counted over all partitions."""

    state: AuditState = field(default_factory=AuditState)
    log: list[tuple[int, int]] = field(default_factory=list)  # (partition, time) by offset
    reported: list[list[int]] = field(default_factory=lambda: [[], []])  # offsets by session
    unreported: list[list[int]] = field(default_factory=lambda: [[], []])
    low: list[int] = field(default_factory=lambda: [0, 0])
    sequence: int = 0
    now_ms: int = 0
    tier: list[int] = field(default_factory=list)  # offsets that the tier holds
    read: int = 0

    def __post_init__(self) -> None:
        topic = TopicState("t", "id", "c", WINDOW_MS, 20, -1)
        topic.tiers["loaded"] = TierState("t", "id", "c")
        self.state.topics["t"] = topic
        for session in (0, 1):
            self.heartbeat(session, False)

    def counts(self, offsets: list[int]) -> dict[WindowOfPartition, Counts]:
        found: dict[WindowOfPartition, Counts] = {}
        for offset in offsets:
            partition, time_ms = self.log[offset]
            at = WindowOfPartition(partition, window_start(time_ms, WINDOW_MS))
            found.setdefault(at, Counts()).add(1, digest(time_ms, None, b"%d" % offset), offset)
        return found

    def report(self, session: int) -> None:
        self.reported[session] += self.unreported[session]
        self.unreported[session] = []
        for at, counts in self.counts(self.reported[session]).items():
            self.sequence += 1
            self.state.reports.add(
                CountsReport(
                    producer="p",
                    session=str(session),
                    sequence=self.sequence,
                    part=0,
                    topic="t",
                    topic_id="id",
                    partition=at.partition,
                    window_start_ms=at.start_ms,
                    window_ms=WINDOW_MS,
                    counts=counts,
                    sent_ms=self.now_ms,
                )
            )

    def heartbeat(self, session: int, is_closed: bool) -> None:
        self.sequence += 1
        self.state.reports.add(
            SessionReport(
                producer="p",
                session=str(session),
                sequence=self.sequence,
                topics=("t",),
                window_ms=WINDOW_MS,
                count=len(self.reported[session]),
                low_time_ms=self.low[session],
                lease_ms=LEASE_MS,
                sent_ms=self.now_ms,
                is_closed=is_closed,
            )
        )

    def promise(self, *low: int) -> None:
        """Both sessions say that they send nothing below these times any more."""
        self.low = list(low)
        for session in (0, 1):
            self.heartbeat(session, False)

    def collect(self) -> None:
        tier = self.state.topics["t"].tiers["loaded"]
        tier.counts = self.counts(self.tier)
        tier.positions = {0: self.read, 1: self.read}
        judge_topic(self.state, "t", self.now_ms)
        self.state = AuditState.from_bytes(self.state.to_bytes(), "the test")


STEP = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 1), st.integers(0, 30)),
    st.tuples(st.just("late"), st.integers(0, 1), st.integers(0, 1), st.integers(1, 30)),
    st.tuples(st.just("promise"), st.integers(0, 1), st.integers(0, 25), st.just(0)),
    st.tuples(st.just("load"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("lose"), st.just(0), st.just(0), st.integers(0, 50)),
    st.tuples(st.just("double"), st.just(0), st.just(0), st.integers(0, 50)),
    st.tuples(st.just("collect"), st.just(0), st.integers(0, 40), st.just(0)),
)


@pytest.mark.thorough
@settings(max_examples=examples(300))
@example(
    [
        ("promise", 0, 20, 0),
        ("send", 1, 0, 0),
        ("promise", 1, 20, 0),
        ("load", 0, 0, 0),
        ("late", 0, 0, 1),
        ("collect", 0, 0, 0),
        ("load", 0, 0, 0),
        ("collect", 0, 0, 0),
    ]
)  # a late record that no producer has reported, in a window that was empty
@given(st.lists(STEP, max_size=40))
def test_complete_means_that_the_tier_has_what_was_promised(steps: list[tuple[str, int, int, int]]) -> None:
    world = World()
    until = version = -1
    for kind, session, number, amount in steps:
        if kind in ("send", "late"):
            time_ms = world.low[session] + amount if kind == "send" else max(world.low[session] - amount, 0)
            world.unreported[session].append(len(world.log))
            world.log.append((number, time_ms))
        elif kind == "promise":
            world.report(session)
            world.low[session] += number
            world.heartbeat(session, False)
        elif kind == "load":
            world.tier += range(world.read, len(world.log))
            world.read = len(world.log)
        elif kind == "lose" and world.tier:
            world.tier.pop(amount % len(world.tier))
        elif kind == "double" and world.tier:
            world.tier.append(world.tier[amount % len(world.tier)])
        elif kind == "collect":
            world.now_ms += number
            world.collect()
            topic = world.state.topics["t"]
            mark = topic.watermarks.get("loaded")
            if mark is None:
                continue
            verdicts = topic.verdicts["loaded"]
            assert mark.complete_until_ms >= until and mark.version >= max(version, 0)
            reported = world.counts(world.reported[0] + world.reported[1])
            held = world.counts(world.tier)
            for start_ms, verdict in verdicts.items():
                assert verdict.word in VERDICTS
                mine = {at: one for at, one in reported.items() if at.start_ms == start_ms}
                theirs = {at: one for at, one in held.items() if at.start_ms == start_ms}
                is_same = mine == theirs
                assert (verdict.word in PASSING) <= is_same, "what passes is the same"
                if start_ms < mark.complete_until_ms and verdict.word not in PASSING:
                    assert verdict.was_passing and verdict.version > 0, "it opened after it was complete"
                if start_ms + WINDOW_MS > min(world.low) and not verdict.was_passing:
                    assert verdict.word in ("waiting", "stalled"), "a producer may still send"
            opened = find_reopened(verdicts.values(), mark.complete_until_ms, max(version, 0))
            assert bool(opened) == (mark.version > max(version, 0) and bool(opened))
            assert mark.version - max(version, 0) in (0, 1)
            until, version = mark.complete_until_ms, mark.version


def test_a_late_record_opens_an_empty_window_again() -> None:
    world = World()
    world.log, world.tier, world.read = [(0, 1)], [0], 1
    world.unreported[0] = [0]
    world.report(0)
    world.promise(20, 20)
    world.collect()
    assert world.state.topics["t"].watermarks["loaded"].complete_until_ms == 20
    world.log.append((0, 19))
    world.tier, world.read, world.now_ms = [0, 1], 2, 1
    world.collect()
    topic = world.state.topics["t"]
    assert topic.verdicts["loaded"][10].word == "reopened", "the tier has it, and no producer has reported it"
    assert [one.start_ms for one in find_reopened(topic.verdicts["loaded"].values(), 20, 0)] == [10]
    world.unreported[1] = [1]
    world.report(1)
    world.collect()
    topic = world.state.topics["t"]
    assert topic.verdicts["loaded"][10].word == "late"
    assert (topic.watermarks["loaded"].complete_until_ms, topic.watermarks["loaded"].version) == (20, 2)


def test_a_lost_report_is_a_gap_and_a_repeated_one_is_not() -> None:
    world = World()
    world.log = [(0, 1), (0, 2), (0, 11)]
    world.tier, world.read = [0, 1, 2], 3
    world.unreported[0] = [0, 1, 2]
    world.report(0)
    world.report(0)
    world.promise(40, 40)
    world.collect()
    assert [one.word for one in world.state.topics["t"].verdicts["loaded"].values()] == [
        "complete",
        "complete",
    ]
    lost = next(key for key in world.state.reports.counts if key.start_ms == 10)
    del world.state.reports.counts[lost]
    fresh = World(state=world.state, log=world.log, tier=world.tier, read=3)
    fresh.state.reports = world.state.reports
    topic = fresh.state.topics["t"]
    assert [one.lacks for one in world.state.reports.sessions_of("t")] == [1, 0]
    topic.verdicts.clear()
    topic.watermarks.clear()
    judge_topic(fresh.state, "t", 1)
    assert fresh.state.topics["t"].verdicts["loaded"][0].word == "stalled"


def test_a_dead_producer_blocks_until_it_is_waived() -> None:
    world = World()
    world.log, world.tier, world.read = [(0, 1), (0, 15)], [0, 1], 2
    world.unreported[0] = [0, 1]
    world.report(0)
    world.promise(40, 5)
    world.now_ms = LEASE_MS + 1
    world.heartbeat(0, False)
    world.collect()
    topic = world.state.topics["t"]
    assert [one.word for one in topic.verdicts["loaded"].values()] == ["stalled", "stalled"]
    assert "fell silent" in topic.watermarks["loaded"].blocked_by
    span = Waiver("t", "loaded", 0, 20, reason="gone")
    world.state.waivers.append(span)
    world.collect()
    topic = world.state.topics["t"]
    assert [one.word for one in topic.verdicts["loaded"].values()] == ["waived", "waived"]
    assert topic.watermarks["loaded"].complete_until_ms == 20, "the waiver carries the promise to its end"
    world.state.waivers.append(Waiver("t", session="1", reason="gone"))
    world.collect()
    assert world.state.topics["t"].watermarks["loaded"].complete_until_ms == 40


def test_old_windows_are_forgotten_without_a_gap() -> None:
    world = World()
    world.log = [(0, time_ms) for time_ms in range(0, 100, 5)]
    world.tier, world.read = list(range(20)), 20
    world.unreported[0] = list(range(20))
    world.report(0)
    world.promise(100, 100)
    world.collect()
    assert world.state.topics["t"].watermarks["loaded"].complete_until_ms == 100
    assert forget(world.state, "t", 30) == 7
    topic = world.state.topics["t"]
    assert min(topic.verdicts["loaded"]) == topic.since_ms == 70
    assert [one.lacks for one in world.state.reports.sessions_of("t")] == [0, 0]
    world.collect()
    mark = world.state.topics["t"].watermarks["loaded"]
    assert (mark.complete_until_ms, mark.version) == (100, 0)


def test_windows_before_the_first_report_are_not_judged() -> None:
    reports = Reports()
    assert reports.sum_produced("t", "id") == {}
    world = World()
    world.log, world.tier, world.read = [(0, 1), (0, 2)], [0, 1], 2
    world.collect()
    assert world.state.topics["t"].watermarks == {}
