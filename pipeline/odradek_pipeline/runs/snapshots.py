"""Plans of snapshots: which topics are read whole, which only behind the last snapshot, and whose rows are replaced.

A tombstone stays in a compacted log for `delete.retention.ms`. A snapshot that continues after a longer pause would
miss tombstones, and keep keys that are gone. So it reads all again when half of that time has passed: the other half is
for the reading itself, and for clocks that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek_pipeline.runs.plans import FAIL, START_AGAIN, LogFacts, Plan, plan_load
from odradek_pipeline.runs.positions import RunPosition, position
from odradek_pipeline.runs.ranges import Holdings, OffsetRange


class Cleaning(NamedTuple):
    """A topic's settings: whether its tombstones are removed, and how long they stay."""

    is_compacted: bool
    delete_retention_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """The plan, and the whole partitions whose rows are replaced. `whole` are the topics that are read whole."""

    plan: Plan
    scope: tuple[OffsetRange, ...]
    whole: frozenset[str]


def find_aged(
    read_ms: Mapping[str, int], cleaning: Mapping[str, Cleaning], now_ms: int, share: float
) -> set[str]:
    """The topics of `cleaning` of which a snapshot at `read_ms` is older than that share of a tombstone's time."""
    return {
        topic
        for topic, one in cleaning.items()
        if topic in read_ms
        and one.is_compacted
        and now_ms - read_ms[topic] >= one.delete_retention_ms * share
    }


def note_snapshot(
    read_ms: Mapping[str, int], facts: Sequence[LogFacts], after: Holdings, now_ms: int
) -> dict[str, int]:
    """`read_ms` after a snapshot that asked for `facts` at `now_ms`, and after which the table holds `after`.

    A snapshot that stops below a log's end says nothing of when the tombstones behind it were written. So the former
    time stays, or 0 where there is none.
    """
    made = dict(read_ms)
    for one in facts:
        is_at_end = all((after.end(one.key(partition)) or 0) >= end for partition, end in one.ends.items())
        made[one.topic] = now_ms if is_at_end else made.get(one.topic, 0)
    return made


def plan_snapshot(
    held: Holdings,
    facts: Sequence[LogFacts],
    whole: Collection[str],
    *,
    stop: RunPosition,
    on_recreated: str = FAIL,
) -> SnapshotPlan:
    """Plan a snapshot up to `stop`: `whole` topics and new ones are read from their start, others behind what is held.

    Raises TruncatedError and RecreatedError; START_AGAIN takes a topic that was made again in place of the former one.
    """
    again = {one.topic for one in facts if _is_another(held, one)} if on_recreated == START_AGAIN else set()
    is_whole = frozenset(
        one.topic for one in facts if one.topic in {*whole, *again} or one.topic not in held.topics
    )
    before = Holdings({name: one for name, one in held.topics.items() if name not in is_whole})
    plan = plan_load(before, facts, start=position("earliest"), stop=stop)
    scope = [OffsetRange(one.key, 0, one.end) for one in plan.ranges if one.key.topic not in is_whole]
    for topic in sorted(is_whole):
        ends = {one.key: one.end for one in held.ranges([topic])}
        for one in plan.holdings.ranges([topic]):
            ends[one.key] = max(one.end, ends.get(one.key, 0))
        scope += [OffsetRange(key, 0, end) for key, end in sorted(ends.items()) if end]
    return SnapshotPlan(plan, tuple(scope), is_whole)


def _is_another(held: Holdings, facts: LogFacts) -> bool:
    known = held.topics.get(facts.topic)
    return known is not None and known.topic_id != facts.topic_id
