"""Streams without Spark: what a batch reads, when it is due, and which driver of a query may commit."""

from __future__ import annotations

import pytest

from odradek_pipeline.errors import FencedError
from odradek_pipeline.runs.plans import LogFacts, limit_ranges, plan_load, rebase_record, require_unfenced
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.queries import QueryState, merge_queries, next_batch, take_over
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey
from odradek_pipeline.runs.rates import Rates, ends_of, measure_lag, pin_facts, pin_new_topics
from odradek_pipeline.runs.record import QUERY, REPLAY, STREAM, RunRecord


def of(partition: int, start: int, end: int, topic_id: str = "id-1") -> OffsetRange:
    return OffsetRange(PartitionKey("t", topic_id, partition), start, end)


def facts(*ends: int, topic_id: str = "id-1") -> LogFacts:
    by_partition = dict(enumerate(ends))
    return LogFacts("t", topic_id, "c", dict.fromkeys(by_partition, 0), by_partition, by_partition)


def batch(state: QueryState, *ranges: OffsetRange) -> RunRecord:
    return RunRecord(
        f"run-{state.driver}-{state.batch}",
        STREAM,
        state.batch,
        "c",
        ranges,
        Holdings.none().with_ranges(ranges, "c"),
        started_ms=1,
        details={QUERY: "q"},
        queries={"q": state},
    )


def test_a_batch_is_limited_by_lag() -> None:
    ranges = [of(0, 10, 110), of(1, 0, 50), of(2, 7, 7), of(3, 0, 1)]
    assert limit_ranges(ranges, 151) == ranges
    assert limit_ranges(ranges, 15) == [of(0, 10, 20), of(1, 0, 5), of(2, 7, 7), of(3, 0, 0)]
    assert [one.span for one in limit_ranges(ranges, 1)] == [1, 0, 0, 0]
    shared = limit_ranges(ranges, 8)
    assert sum(one.span for one in shared) == 8
    held = Holdings.none()
    for turn in range(12):
        plan = plan_load(
            held, [facts(20, 3)], start=position("earliest"), stop=position("latest"), offsets_max=2
        )
        assert plan.span == (2 if turn < 11 else 1)
        held = plan.holdings
    assert held.ranges() == [of(0, 0, 20), of(1, 0, 3)]


def test_ends_are_fixed_for_what_is_available_now() -> None:
    ends = ends_of([facts(5, 3)])
    (now,) = pin_facts([facts(9, 2, 4)], ends)
    assert now.ends == {0: 5, 1: 2}
    again = [facts(8, topic_id="id-2")]
    ends = pin_new_topics(again, ends)
    (now,) = pin_facts([facts(11, topic_id="id-2")], ends)
    assert now.ends == {0: 8}
    assert measure_lag([facts(9, 2, 4)], Holdings.none().with_ranges([of(0, 0, 5), of(1, 0, 2)], "c")) == 8


def test_a_batch_waits_for_offsets_or_for_time() -> None:
    rates = Rates(None, 10, 1000)
    assert not rates.is_due(9, 999)
    assert rates.is_due(10, 0)
    assert rates.is_due(1, 1000)


def test_a_driver_that_takes_over_fences_the_former() -> None:
    first = take_over({}, "q", "a")
    assert (first, next_batch({}, "q", first)) == (QueryState("a", 1, 0), QueryState("a", 1, 1))
    committed = {"q": QueryState("a", 1, 4)}
    second = take_over(committed, "q", "b")
    assert second == QueryState("b", 2, 4)
    # Until the new driver commits, the former one may.
    assert next_batch(committed, "q", first).batch == 5
    assert next_batch({"q": QueryState("a", 1, 5)}, "q", second) == QueryState("b", 2, 6)
    with pytest.raises(FencedError, match="driver b took over query 'q' and committed its batch 6"):
        next_batch({"q": QueryState("b", 2, 6)}, "q", first)
    with pytest.raises(FencedError, match="took over"):
        next_batch({"q": QueryState("c", 2, 6)}, "q", second)
    assert merge_queries({"q": first, "r": second}, committed) == {"q": QueryState("a", 1, 4), "r": second}


def test_a_batch_of_a_former_driver_follows_nothing() -> None:
    """Also where its ranges are free, as those of a partition which the new driver did not read."""
    mine = batch(QueryState("a", 1, 5), of(0, 10, 20))
    other = batch(QueryState("b", 2, 5), of(1, 0, 10))
    with pytest.raises(FencedError, match="took over"):
        require_unfenced(mine, [other], other.holdings)
    same = batch(QueryState("a", 1, 5), of(1, 0, 10))
    with pytest.raises(FencedError, match="batch 5 of query 'q' is committed already"):
        require_unfenced(mine, [same], same.holdings)
    before = Holdings.none().with_ranges([of(0, 0, 10), of(1, 0, 5)], "c")
    replay = RunRecord(
        "replay", REPLAY, 9, "c", (of(1, 0, 5),), before, 1, queries={"q": QueryState("a", 1, 4)}
    )
    require_unfenced(mine, [replay], replay.holdings)
    after = rebase_record(mine, replay)
    assert (after.number, after.queries["q"].batch) == (10, 5)
    assert after.holdings.ranges() == [of(0, 0, 20), of(1, 0, 5)]
    assert RunRecord.from_text(after.to_text()) == after


def test_records_of_before_have_no_queries() -> None:
    row = batch(QueryState("a", 1, 5), of(0, 10, 20)).as_json()
    del row["queries"]
    assert RunRecord.from_json(row).queries == {}
