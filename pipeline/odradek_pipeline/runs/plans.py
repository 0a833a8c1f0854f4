"""Plans of loads and replays: which ranges a run reads, by what the output holds and what the log has now.

Everything here is pure. Facts of the log arrive as values, so that a test can play any history without a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from odradek_pipeline.errors import FencedError, NotFoundError, RecreatedError, TruncatedError
from odradek_pipeline.runs.columns import merge_columns
from odradek_pipeline.runs.positions import RunPosition
from odradek_pipeline.runs.queries import merge_queries, require_batch_free
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey, join_ranges
from odradek_pipeline.runs.record import EXTENDING, QUERY, SNAPSHOT, RunRecord

FAIL: Final = "fail"
PASS_OVER: Final = "pass-over"
START_AGAIN: Final = "start-again"


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One topic as its leaders answer now: for each partition its log start and two ends.

    `ends` is where a run may read to: the last stable offset for a reader of committed records. `high_watermarks` is
    where the log ends for any reader. Where a run asks for times, `start_offsets` and `stop_offsets` are the first
    offsets at or after them.
    """

    topic: str
    topic_id: str
    cluster_id: str | None
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]
    high_watermarks: Mapping[int, int]
    start_offsets: Mapping[int, int] = field(default_factory=dict)
    stop_offsets: Mapping[int, int] = field(default_factory=dict)

    def key(self, partition: int) -> PartitionKey:
        return PartitionKey(self.topic, self.topic_id, partition)


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges that a run reads, all of them in one commit, and what the output holds after it.

    Empty ranges are left out. `joining` are partitions that were not held before.
    """

    ranges: tuple[OffsetRange, ...]
    holdings: Holdings
    cluster_id: str | None
    lost: tuple[OffsetRange, ...] = ()
    joining: tuple[PartitionKey, ...] = ()

    @property
    def span(self) -> int:
        return sum(one.span for one in self.ranges)


def plan_load(
    held: Holdings,
    facts: Sequence[LogFacts],
    *,
    start: RunPosition,
    stop: RunPosition,
    on_truncated: str = FAIL,
    on_recreated: str = FAIL,
    offsets_max: int | None = None,
) -> Plan:
    """Plan a load: it reads from the output's end, or from `start` for a topic that it does not hold, up to `stop`.

    A partition that joined a topic since then begins at its log start. No more than `offsets_max` are read, shared by
    lag. Raises TruncatedError and RecreatedError, unless the run is allowed to pass over what is lost, or to start
    again with the new topic.
    """
    ranges: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    joining: list[PartitionKey] = []
    for one in facts:
        is_new = _is_new(held, one, on_recreated)
        for partition in sorted(one.ends):
            key = one.key(partition)
            end = held.end(key)
            if end is None:
                joining.append(key)
                end = _first_start(one, partition, start) if is_new else one.log_starts[partition]
            begin, gap = _readable(one, partition, end, on_truncated)
            lost += gap
            ranges.append(OffsetRange(key, begin, max(begin, _stop(one, partition, stop))))
    cluster_id = facts[0].cluster_id if facts else None
    if offsets_max is not None:
        ranges = limit_ranges(ranges, offsets_max)
    holdings = held.with_ranges(ranges, cluster_id)
    filled = tuple(one for one in ranges if not one.is_empty)
    return Plan(filled, holdings, cluster_id, tuple(lost), tuple(joining))


def limit_ranges(ranges: Sequence[OffsetRange], offsets_max: int) -> list[OffsetRange]:
    """The beginnings of `ranges`, with at most `offsets_max` offsets in sum, shared by length as in Spark's connector.

    What rounding leaves over goes to the longest. A range may become empty.
    """
    total = sum(one.span for one in ranges)
    if total <= offsets_max:
        return list(ranges)
    shares = {one: one.span * offsets_max // total for one in ranges}
    left = offsets_max - sum(shares.values())
    for one in sorted(ranges, key=lambda one: (-one.span, one))[:left]:
        shares[one] += 1
    return [replace(one, end=one.start + shares[one]) for one in ranges]


def plan_replay(
    held: Holdings,
    facts: Sequence[LogFacts],
    wanted: Iterable[OffsetRange],
    *,
    on_truncated: str = FAIL,
) -> Plan:
    """Plan a replay: it reads and replaces what of `wanted` the output holds. The holdings stay as they are.

    Raises RecreatedError where the topic of a range is another one now, and TruncatedError where the log no longer has
    its beginning. With PASS_OVER such a range begins at the log start, and the rows below it stay.
    """
    by_topic = {one.topic: one for one in facts}
    ranges: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    for one in join_ranges(clip_ranges(wanted, held)):
        topic = by_topic.get(one.key.topic)
        if topic is None:
            raise NotFoundError(f"there is no topic {one.key.topic!r} to read {one} from again")
        if topic.topic_id != one.key.topic_id:
            raise _recreated_error(one.key.topic, one.key.topic_id, topic)
        begin, gap = _readable(topic, one.key.partition, one.start, on_truncated, one.end)
        lost += gap
        ranges.append(replace(one, start=min(begin, one.end)))
    filled = tuple(one for one in ranges if not one.is_empty)
    return Plan(filled, held, facts[0].cluster_id if facts else None, tuple(lost))


def ranges_between(
    held: Holdings, facts: Sequence[LogFacts], start: RunPosition, stop: RunPosition
) -> list[OffsetRange]:
    """Return the holdings between two positions, for a replay. Raises RecreatedError for another topic."""
    found = []
    for one in facts:
        _is_new(held, one, FAIL)
        for partition in sorted(one.ends):
            end = held.end(one.key(partition))
            if end is not None:
                begin = _first_start(one, partition, start)
                until = end if stop.text == "latest" else min(end, _stop(one, partition, stop))
                found.append(OffsetRange(one.key(partition), begin, max(begin, until)))
    return clip_ranges(found, held)


def clip_ranges(ranges: Iterable[OffsetRange], held: Holdings) -> list[OffsetRange]:
    """The parts of `ranges` that are held. Ranges of a topic that was replaced by another of its name stay."""
    all_held = {one.key: one for one in held.ranges()}
    found = []
    for one in ranges:
        bounds = all_held.get(one.key)
        if bounds is not None:
            one = replace(one, start=max(one.start, bounds.start), end=min(one.end, bounds.end))
        if not one.is_empty:
            found.append(one)
    return found


def require_unfenced(mine: RunRecord, since: Sequence[RunRecord], newest: Holdings) -> None:
    """Raises FencedError unless `mine` can follow the records committed since it was planned, the last with `newest`.

    A load follows when each of its ranges begins where the output now ends. A replay follows when no record since then
    touched its ranges. A run that was fenced by name never follows, nor does the batch of a stream's former driver.
    """
    query = mine.details.get(QUERY)
    for other in since:
        if mine.run in other.details.get("fenced", ()):
            raise FencedError(
                f"run {mine.run} was given up: {other.run} removed its files. Nothing was committed; run it again"
            )
        for one in mine.ranges:
            for theirs in other.ranges:
                if one.overlaps(theirs):
                    raise FencedError(
                        f"run {other.run} ({other.kind}) committed {theirs} while this run had {one}. "
                        "This run changed nothing; run it again"
                    )
        if bool(other.snapshots) != bool(mine.snapshots):
            raise FencedError(
                f"run {other.run} ({other.kind}) made this a table of other rows. Run {mine.run} changed nothing"
            )
        if query is not None:
            require_batch_free(other.queries, query, mine.queries[query])
    if mine.kind in EXTENDING:
        _require_next(mine, newest)


def _require_next(mine: RunRecord, newest: Holdings) -> None:
    began: dict[PartitionKey, int] = {}
    for one in (*mine.lost, *mine.ranges):
        began[one.key] = min(one.start, began.get(one.key, one.start))
    for key, start in began.items():
        end = newest.end(key)
        if end is not None and end != start:
            raise FencedError(
                f"the output holds {key} up to {end} now, and this run began at {start}. "
                "This run changed nothing; run it again"
            )


def rebase_record(mine: RunRecord, newest: RunRecord) -> RunRecord:
    """`mine` as it follows `newest`: its number, and its own ranges on top of what the newest record holds."""
    holdings = newest.holdings
    if mine.kind in (*EXTENDING, SNAPSHOT):
        own = mine.holdings.ranges(sorted({one.key.topic for one in mine.ranges}))
        holdings = holdings.with_ranges(own, mine.cluster_id)
    return replace(
        mine,
        number=newest.number + 1,
        holdings=holdings,
        queries=merge_queries(newest.queries, mine.queries),
        snapshots={**newest.snapshots, **mine.snapshots},
        columns=merge_columns(newest.columns, mine.columns),
    )


def _is_new(held: Holdings, facts: LogFacts, on_recreated: str) -> bool:
    known = held.topics.get(facts.topic)
    if known is None:
        return True
    if known.topic_id == facts.topic_id:
        return False
    if on_recreated != START_AGAIN:
        raise _recreated_error(facts.topic, known.topic_id, facts, known.cluster_id)
    return True


def _recreated_error(
    topic: str, held_id: str, facts: LogFacts, held_cluster: str | None = None
) -> RecreatedError:
    where = ""
    if held_cluster is not None and held_cluster != facts.cluster_id:
        where = f" The output's rows are from cluster {held_cluster}, and this is {facts.cluster_id}."
    return RecreatedError(
        f"recreated: the output holds topic {topic!r} with id {held_id}, and the topic has id {facts.topic_id} now."
        f"{where} Its offsets begin again. Load into another output, or add --on-recreated start-again to keep both"
    )


def _first_start(facts: LogFacts, partition: int, start: RunPosition) -> int:
    """Return the first offset for a partition that the output lacks. A time beyond the last record is the end."""
    if start.text == "latest":
        return facts.ends[partition]
    if start.time_ms is not None:
        found = facts.start_offsets.get(partition, -1)
        return facts.ends[partition] if found < 0 else found
    if start.offsets is not None:
        given = start.offset(facts.topic, partition)
        return facts.log_starts[partition] if given is None else given
    return facts.log_starts[partition]


def _stop(facts: LogFacts, partition: int, stop: RunPosition) -> int:
    end = facts.ends[partition]
    if stop.text == "earliest":
        return facts.log_starts[partition]
    if stop.time_ms is not None:
        found = facts.stop_offsets.get(partition, -1)
        return end if found < 0 else min(found, end)
    if stop.offsets is not None:
        given = stop.offset(facts.topic, partition)
        return end if given is None else min(given, end)
    return end


def _readable(
    facts: LogFacts, partition: int, wanted: int, on_truncated: str, end: int | None = None
) -> tuple[int, list[OffsetRange]]:
    """Return the first readable offset, and the ranges before it that the log no longer has. Raises TruncatedError."""
    log_start = facts.log_starts[partition]
    log_end = max(facts.high_watermarks[partition], facts.ends[partition])
    key = facts.key(partition)
    if wanted > log_end:
        raise TruncatedError(
            f"truncated: partition {key} ends at {log_end}, and offset {wanted} is next. The log went back: records "
            "that were read are no longer in it. Compare both, then load into another output"
        )
    if wanted >= log_start:
        return wanted, []
    if on_truncated != PASS_OVER:
        raise TruncatedError(
            f"truncated: partition {key} begins at {log_start}, and offset {wanted} is next. The records between are "
            "gone from the log. Add --on-truncated pass-over to continue behind the gap, which is then on record"
        )
    return log_start, [OffsetRange(key, wanted, log_start if end is None else min(log_start, end))]
