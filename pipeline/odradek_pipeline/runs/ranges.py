"""Ranges of offsets. A range is a span of a partition's log and no count of records.

Markers of transactions, aborted records and compaction leave offsets without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek_pipeline.errors import RecordLostError


class PartitionKey(NamedTuple):
    """One partition of one topic. Two topics of one name differ by their id."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start` (inclusive) to `end` (exclusive) of one partition."""

    key: PartitionKey
    start: int
    end: int

    @property
    def span(self) -> int:
        """The number of offsets in it; rows may be fewer."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        return self.end <= self.start

    def overlaps(self, other: OffsetRange) -> bool:
        """Whether an offset lies in both."""
        return self.key == other.key and max(self.start, other.start) < min(self.end, other.end)

    def contains(self, other: OffsetRange) -> bool:
        return self.key == other.key and self.start <= other.start and other.end <= self.end

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.key.topic,
            "topic_id": self.key.topic_id,
            "partition": self.key.partition,
            "start": self.start,
            "end": self.end,
        }

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> OffsetRange:
        key = PartitionKey(str(row["topic"]), str(row["topic_id"]), int(row["partition"]))
        return OffsetRange(key, int(row["start"]), int(row["end"]))

    def __str__(self) -> str:
        return f"{self.key} {self.start}..{self.end}"


@dataclass(frozen=True, slots=True)
class TopicHolding:
    """The holdings of one topic: for each partition the offsets from the first to the next to be loaded."""

    topic: str
    topic_id: str
    cluster_id: str | None
    partitions: Mapping[int, tuple[int, int]]

    def as_json(self) -> dict[str, Any]:
        rows = [[number, start, end] for number, (start, end) in sorted(self.partitions.items())]
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "cluster_id": self.cluster_id,
            "partitions": rows,
        }

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> TopicHolding:
        partitions = {int(number): (int(start), int(end)) for number, start, end in row["partitions"]}
        return TopicHolding(str(row["topic"]), str(row["topic_id"]), row["cluster_id"], partitions)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The holdings of an output, by topic: the whole vector, which every commit repeats."""

    topics: Mapping[str, TopicHolding]

    @staticmethod
    def none() -> Holdings:
        return Holdings({})

    def end(self, key: PartitionKey) -> int | None:
        """The next offset to load; None for a partition of which nothing is held."""
        held = self.topics.get(key.topic)
        if held is None or held.topic_id != key.topic_id:
            return None
        span = held.partitions.get(key.partition)
        return None if span is None else span[1]

    def ranges(self, topics: Iterable[str] | None = None) -> list[OffsetRange]:
        """All that is held, or what is held of some topics."""
        wanted = sorted(self.topics) if topics is None else [name for name in topics if name in self.topics]
        return [
            OffsetRange(PartitionKey(name, self.topics[name].topic_id, number), start, end)
            for name in wanted
            for number, (start, end) in sorted(self.topics[name].partitions.items())
        ]

    def with_ranges(self, ranges: Sequence[OffsetRange], cluster_id: str | None) -> Holdings:
        """These holdings after a load of `ranges`. A topic with another id takes the place of the former one."""
        topics = dict(self.topics)
        for one in ranges:
            held = topics.get(one.key.topic)
            if held is None or held.topic_id != one.key.topic_id:
                held = TopicHolding(one.key.topic, one.key.topic_id, cluster_id, {})
            start, end = held.partitions.get(one.key.partition, (one.start, one.start))
            # The end never goes back: two records of one output are merged by their maximum.
            partitions = {**held.partitions, one.key.partition: (min(start, one.start), max(end, one.end))}
            topics[one.key.topic] = replace(held, partitions=partitions)
        return Holdings(topics)

    def as_json(self) -> list[dict[str, Any]]:
        return [held.as_json() for _, held in sorted(self.topics.items())]

    @staticmethod
    def from_json(rows: Iterable[Mapping[str, Any]]) -> Holdings:
        return Holdings({held.topic: held for held in map(TopicHolding.from_json, rows)})


def subtract_ranges(whole: OffsetRange, taken: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The rest of `whole` without `taken`, sorted."""
    left = []
    start = whole.start
    for one in sorted(one for one in taken if one.overlaps(whole)):
        if start < one.start:
            left.append(replace(whole, start=start, end=one.start))
        start = max(start, one.end)
    if start < whole.end:
        left.append(replace(whole, start=start))
    return left


def join_ranges(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The same offsets in as few ranges as there can be, sorted; empty ones are left out."""
    made: list[OffsetRange] = []
    for one in sorted(one for one in ranges if not one.is_empty):
        last = made[-1] if made else None
        if last is not None and last.key == one.key and one.start <= last.end:
            made[-1] = replace(last, end=max(last.end, one.end))
        else:
            made.append(one)
    return made


def span_ranges(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range for each partition, from the first offset of its ranges to the last."""
    made: dict[PartitionKey, OffsetRange] = {}
    for one in ranges:
        known = made.get(one.key, one)
        made[one.key] = replace(one, start=min(one.start, known.start), end=max(one.end, known.end))
    return sorted(made.values())


def require_format(row: Mapping[str, Any], newest: int, where: str) -> None:
    """Raises RecordLostError for a record that a later version of this program wrote."""
    found = row.get("format")
    if not isinstance(found, int) or not 1 <= found <= newest:
        raise RecordLostError(
            f"{where} has format {found!r}, and this version reads up to {newest}: update odradek-pipeline"
        )


def widen_ranges(ranges: Iterable[OffsetRange], files: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The smallest ranges around `ranges` that split none of `files`."""
    by_key: dict[object, list[OffsetRange]] = {}
    for one in files:
        by_key.setdefault(one.key, []).append(one)
    found = join_ranges(ranges)
    while True:
        grown = join_ranges(_widen_range(one, by_key.get(one.key, ())) for one in found)
        if grown == found:
            return found
        found = grown


def _widen_range(one: OffsetRange, files: Iterable[OffsetRange]) -> OffsetRange:
    touched = [file for file in files if file.overlaps(one)]
    start = min((file.start for file in touched), default=one.start)
    end = max((file.end for file in touched), default=one.end)
    return replace(one, start=min(start, one.start), end=max(end, one.end))
