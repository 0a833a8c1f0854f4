"""Plans of snapshots without Spark: what is read whole, and whose rows are replaced."""

from __future__ import annotations

import pytest

from odradek_pipeline.errors import FencedError, RecreatedError, TruncatedError
from odradek_pipeline.runs.plans import LogFacts, rebase_record, require_unfenced
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey
from odradek_pipeline.runs.record import LOAD, SNAPSHOT, RunRecord
from odradek_pipeline.runs.snapshots import Cleaning, SnapshotPlan, find_aged, note_snapshot, plan_snapshot

LATEST = position("latest")


def of(partition: int, start: int, end: int, topic: str = "t", topic_id: str = "id-1") -> OffsetRange:
    return OffsetRange(PartitionKey(topic, topic_id, partition), start, end)


def held(*ranges: OffsetRange) -> Holdings:
    return Holdings.none().with_ranges(ranges, "c")


def facts(
    *ends: int, starts: tuple[int, ...] = (0, 0, 0), topic: str = "t", topic_id: str = "id-1"
) -> LogFacts:
    by_partition = dict(enumerate(ends))
    return LogFacts(topic, topic_id, "c", dict(enumerate(starts)), by_partition, by_partition)


def plan(
    before: Holdings, *now: LogFacts, whole: tuple[str, ...] = (), on_recreated: str = "fail"
) -> SnapshotPlan:
    return plan_snapshot(before, now, whole, stop=LATEST, on_recreated=on_recreated)


def test_a_first_snapshot_reads_all_and_the_next_what_is_new() -> None:
    first = plan(Holdings.none(), facts(5, 3, starts=(2, 0)))
    assert (first.plan.ranges, first.whole) == ((of(0, 2, 5), of(1, 0, 3)), frozenset({"t"}))
    second = plan(first.plan.holdings, facts(5, 8, 4))
    assert (second.plan.ranges, second.whole) == ((of(1, 3, 8), of(2, 0, 4)), frozenset())
    assert second.scope == (of(1, 0, 8), of(2, 0, 4)), "partition 0 keeps its rows as they are"
    nothing = plan(second.plan.holdings, facts(5, 8, 4))
    assert (nothing.plan.ranges, nothing.scope) == ((), ())


def test_a_whole_topic_replaces_all_its_rows_and_no_other_topics() -> None:
    before = held(of(0, 0, 9), of(1, 0, 4), of(0, 0, 7, "u"))
    again = plan(before, facts(9, 4, starts=(6, 4)), facts(7, topic="u"), whole=("t",))
    assert again.plan.ranges == (of(0, 6, 9),)
    assert again.scope == (of(0, 0, 9), of(1, 0, 4)), "what left partition 1 has no rows any more"
    assert again.plan.holdings.ranges(["u"]) == [of(0, 0, 7, "u")]


def test_a_topic_made_again_is_named_or_takes_the_place() -> None:
    before = held(of(0, 0, 9))
    with pytest.raises(RecreatedError):
        plan(before, facts(3, topic_id="id-2"))
    again = plan(before, facts(3, topic_id="id-2"), on_recreated="start-again")
    assert again.plan.ranges == (of(0, 0, 3, topic_id="id-2"),)
    assert set(again.scope) == {of(0, 0, 9), of(0, 0, 3, topic_id="id-2")}
    with pytest.raises(TruncatedError):
        plan(before, facts(20, starts=(12,)))
    assert plan(before, facts(20, starts=(12,)), whole=("t",)).plan.ranges == (of(0, 12, 20),)


def test_tombstones_that_may_be_gone_ask_for_the_whole_topic() -> None:
    cleaning = {"t": Cleaning(True, 1000), "u": Cleaning(False, 1000), "new": Cleaning(True, 1000)}
    assert find_aged({"t": 100, "u": 100}, cleaning, 599, 1 / 2) == set()
    assert find_aged({"t": 100, "u": 100}, cleaning, 600, 1 / 2) == {"t"}


def test_a_snapshot_below_the_end_is_no_look_at_tombstones() -> None:
    now = facts(5, 3)
    assert note_snapshot({}, [now], held(of(0, 0, 5), of(1, 0, 3)), 100) == {"t": 100}
    assert note_snapshot({}, [now], held(of(0, 0, 5), of(1, 0, 2)), 100) == {"t": 0}
    assert note_snapshot({"t": 40, "u": 50}, [now], held(of(0, 0, 5)), 100) == {"t": 40, "u": 50}
    assert find_aged({"t": 0}, {"t": Cleaning(True, 1000)}, 100_000, 1 / 2) == {"t"}


def test_a_snapshot_follows_no_run_that_was_faster() -> None:
    def record(kind: str, run: str, one: OffsetRange) -> RunRecord:
        snapshots = {"t": 1} if kind == SNAPSHOT else {}
        scope = (of(0, 0, one.end),) if kind == SNAPSHOT else ()
        return RunRecord(run, kind, 1, "c", (one,), held(one), 1, scope=scope, snapshots=snapshots)

    mine = record(SNAPSHOT, "mine", of(0, 5, 9))
    with pytest.raises(FencedError, match="run other"):
        require_unfenced(mine, [record(SNAPSHOT, "other", of(0, 5, 7))], held(of(0, 0, 7)))
    with pytest.raises(FencedError, match="made this a table of other rows"):
        require_unfenced(mine, [record(LOAD, "other", of(1, 0, 7))], held(of(1, 0, 7)))
    other = RunRecord(
        "o", SNAPSHOT, 3, "c", (of(0, 0, 2, "u"),), held(of(0, 0, 2, "u")), 1, snapshots={"u": 8}
    )
    require_unfenced(mine, [other], other.holdings)
    after = rebase_record(mine, other)
    assert (after.number, after.snapshots) == (4, {"t": 1, "u": 8})
    assert after.holdings.ranges() == [of(0, 5, 9), of(0, 0, 2, "u")]
    assert RunRecord.from_text(after.to_text()) == after
