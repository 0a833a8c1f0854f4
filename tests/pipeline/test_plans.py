"""Which ranges a run reads: by what the output holds and what the log has, without Spark or a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, RecreatedError, TruncatedError
from odradek_pipeline.runs.plans import (
    LogFacts,
    plan_load,
    plan_replay,
    ranges_between,
    rebase_record,
    require_unfenced,
)
from odradek_pipeline.runs.positions import PositionError, RunPosition, position
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey, join_ranges, subtract_ranges
from odradek_pipeline.runs.record import LOAD, REPLAY, RunRecord, run_id

EARLIEST, LATEST = position("earliest"), position("latest")


def facts(
    ends: Sequence[int],
    *,
    starts: Sequence[int] | None = None,
    topic_id: str = "id-1",
    stable: Sequence[int] | None = None,
    at: Mapping[int, int] | None = None,
) -> LogFacts:
    """Facts of topic `t`: log ends by partition, and what else is not 0 or the end."""
    return LogFacts(
        topic="t",
        topic_id=topic_id,
        cluster_id="c",
        log_starts=dict(enumerate(starts or [0] * len(ends))),
        ends=dict(enumerate(stable or ends)),
        high_watermarks=dict(enumerate(ends)),
        start_offsets=at or {},
        stop_offsets=at or {},
    )


def of(partition: int, start: int, end: int, topic_id: str = "id-1") -> OffsetRange:
    return OffsetRange(PartitionKey("t", topic_id, partition), start, end)


def held(*ranges: OffsetRange) -> Holdings:
    return Holdings.none().with_ranges(ranges, "c")


def load(before: Holdings, now: LogFacts, start: RunPosition = EARLIEST, **options: Any) -> list[OffsetRange]:
    return list(plan_load(before, [now], start=start, stop=LATEST, **options).ranges)


def record(kind: str, *ranges: OffsetRange, holdings: Holdings | None = None, run: str = "r") -> RunRecord:
    holdings = held(*ranges) if holdings is None else holdings
    return RunRecord(run, kind, 1, "c", tuple(ranges), holdings, started_ms=1)


def test_a_load_goes_on_and_new_partitions_join_at_their_start() -> None:
    assert load(Holdings.none(), facts([5, 0])) == [of(0, 0, 5)]
    before = held(of(0, 0, 5), of(1, 0, 0))
    now = facts([9, 3, 7], starts=[0, 0, 2])
    assert load(before, now, position("latest")) == [of(0, 5, 9), of(1, 0, 3), of(2, 2, 7)]
    plan = plan_load(before, [now], start=EARLIEST, stop=LATEST)
    assert plan.joining == (PartitionKey("t", "id-1", 2),)
    assert plan.holdings.ranges() == [of(0, 0, 9), of(1, 0, 3), of(2, 2, 7)]
    assert load(plan.holdings, now) == []


def test_a_reader_of_committed_records_stops_at_the_last_stable_offset() -> None:
    before = held(of(0, 0, 8))
    assert load(before, facts([9], stable=[8])) == []
    # An uncommitted reader was further once; the position does not go back.
    assert load(before, facts([9], stable=[6])) == []


@pytest.mark.parametrize(
    ("start", "begins"),
    [("earliest", 2), ("latest", 9), ("0:4", 4), ("t/0:4", 4), ("1:4", 2), ("2026-03-01T12:00:00Z", 6)],
)
def test_a_first_load_begins_at_a_position(start: str, begins: int) -> None:
    now = facts([9], starts=[2], at={0: 6})
    plan = plan_load(Holdings.none(), [now], start=position(start), stop=LATEST)
    assert plan.holdings.ranges() == [of(0, begins, 9)]


def test_a_time_after_all_records_is_the_end() -> None:
    now = facts([9], at={0: -1})
    plan = plan_load(Holdings.none(), [now], start=position("1772366400000"), stop=LATEST)
    assert plan.holdings.ranges() == [of(0, 9, 9)], "the next run continues from here"
    stopped = plan_load(Holdings.none(), [facts([9], at={0: 4})], start=EARLIEST, stop=position("0"))
    assert stopped.ranges == (of(0, 0, 4),)


def test_what_the_log_no_longer_has_is_truncated() -> None:
    before = held(of(0, 0, 5))
    with pytest.raises(TruncatedError, match=r"truncated: partition t-0 begins at 7, and offset 5 is next"):
        load(before, facts([9], starts=[7]))
    plan = plan_load(before, [facts([9], starts=[7])], start=EARLIEST, stop=LATEST, on_truncated="pass-over")
    assert (plan.ranges, plan.lost) == ((of(0, 7, 9),), (of(0, 5, 7),))
    with pytest.raises(TruncatedError, match=r"ends at 3, and offset 5 is next\. The log went back"):
        load(before, facts([3]))


def test_a_topic_made_again_is_recreated() -> None:
    before = held(of(0, 0, 5))
    now = facts([9], topic_id="id-2")
    with pytest.raises(RecreatedError, match="holds topic 't' with id id-1, and the topic has id id-2 now"):
        load(before, now)
    assert load(before, now, on_recreated="start-again") == [of(0, 0, 9, "id-2")]
    with pytest.raises(RecreatedError):
        plan_replay(before, [now], [of(0, 0, 5)])


def test_a_replay_reads_what_is_held_of_its_ranges() -> None:
    before = held(of(0, 3, 10), of(1, 0, 4))
    plan = plan_replay(before, [facts([20, 20])], [of(0, 0, 6), of(0, 5, 30), of(1, 2, 3), of(2, 0, 9)][:3])
    assert plan.ranges == (of(0, 3, 10), of(1, 2, 3))
    assert plan.holdings == before
    with pytest.raises(TruncatedError):
        plan_replay(before, [facts([20, 20], starts=[5, 0])], [of(0, 3, 6)])
    passed = plan_replay(before, [facts([20, 20], starts=[5, 0])], [of(0, 3, 6)], on_truncated="pass-over")
    assert (passed.ranges, passed.lost) == ((of(0, 5, 6),), (of(0, 3, 5),))


def test_a_replay_between_two_times() -> None:
    before = held(of(0, 3, 10))
    now = facts([20], at={0: 6})
    assert ranges_between(before, [now], position("1000"), LATEST) == [of(0, 6, 10)]
    assert ranges_between(before, [now], EARLIEST, position("1000")) == [of(0, 3, 6)]
    assert ranges_between(before, [facts([20], at={0: -1})], position("1000"), LATEST) == []


def test_overlapping_runs_are_fenced_and_others_follow() -> None:
    mine = record(LOAD, of(0, 5, 9), holdings=held(of(0, 0, 9)), run="mine")
    same = record(LOAD, of(0, 5, 8), holdings=held(of(0, 0, 8)), run="other")
    with pytest.raises(
        FencedError, match=r"run other \(load\) committed t-0 5\.\.8 while this run had t-0 5\.\.9"
    ):
        require_unfenced(mine, [same], same.holdings)
    replay = record(REPLAY, of(0, 0, 5), holdings=held(of(0, 0, 5)), run="other")
    require_unfenced(mine, [replay], replay.holdings)
    assert rebase_record(mine, replay).holdings.ranges() == [of(0, 0, 9)]
    moved = record(LOAD, holdings=held(of(0, 0, 7)), run="other")
    with pytest.raises(FencedError, match="up to 7 now, and this run began at 5"):
        require_unfenced(mine, [moved], moved.holdings)
    given_up = RunRecord("other", "vacuum", 2, "c", (), held(of(0, 0, 5)), 1, details={"fenced": ["mine"]})
    with pytest.raises(FencedError, match="removed its files"):
        require_unfenced(mine, [given_up], given_up.holdings)


def test_a_replay_follows_a_load_of_other_ranges() -> None:
    mine = record(REPLAY, of(0, 0, 5), holdings=held(of(0, 0, 5)), run="mine")
    newer = record(LOAD, of(0, 5, 9), holdings=held(of(0, 0, 9)), run="other")
    require_unfenced(mine, [newer], newer.holdings)
    assert rebase_record(mine, newer).holdings == newer.holdings
    assert rebase_record(mine, newer).number == 2


def test_ranges_are_joined_and_subtracted() -> None:
    assert join_ranges([of(0, 5, 9), of(0, 0, 5), of(1, 3, 3), of(0, 20, 21)]) == [of(0, 0, 9), of(0, 20, 21)]
    assert subtract_ranges(of(0, 0, 10), [of(0, 8, 12), of(0, 2, 3), of(1, 0, 9)]) == [
        of(0, 0, 2),
        of(0, 3, 8),
    ]
    assert subtract_ranges(of(0, 0, 10), [of(0, 0, 10)]) == []


def test_a_record_is_its_text() -> None:
    one = RunRecord(
        run=run_id(1772366400123, b"\x01\x02\x03\x04"),
        kind=LOAD,
        number=3,
        cluster_id=None,
        ranges=(of(0, 0, 5),),
        holdings=held(of(0, 0, 5), of(1, 0, 0)),
        started_ms=1,
        committed_ms=2,
        lost=(of(1, 0, 1),),
        replaced=("a",),
        details={"batch": 1},
    )
    assert RunRecord.from_text(one.to_text()) == one
    assert one.run == "20260301T120000Z-01020304"


@pytest.mark.parametrize("text", ["yesterday", "", "0:1,", "0=1", "-5"])
def test_other_texts_are_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(PositionError, match="earliest, latest, a time"):
        position(text)


def test_a_partition_has_one_offset() -> None:
    with pytest.raises(PositionError, match="partition 0 has two offsets"):
        position("0:1,0:2")
