"""Ranges of offsets, one for each task, and how large ranges are split. Pure: the same ranges give the same tasks.

A replayed batch of a stream has to have the same rows in the same tasks. So a split depends on offsets and options
alone, never on executors or on the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from odradek.foundation.ids import TopicPartition


class OffsetInputPartition(InputPartition):
    """The offsets of one partition from `start` to before `end`. `topic_id` is the topic's id when it was planned."""

    def __init__(self, topic: str, partition: int, topic_id: str, start: int, end: int) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.start = start
        self.end = end

    @property
    def key(self) -> TopicPartition:
        """The partition as the client names it."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets. Some may have no record: markers, aborted and compacted ones."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"{self.key}[{self.start}, {self.end})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetInputPartition) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.start, self.end))


def split(
    ranges: Sequence[OffsetInputPartition], *, tasks_min: int | None = None, records_max: int | None = None
) -> list[OffsetInputPartition]:
    """The ranges that are not empty, in pieces: at least `tasks_min` in all, at most `records_max` offsets each.

    Each range gets its share of `tasks_min` by its size. Where both are given, the larger number of pieces counts.
    """
    filled = [one for one in ranges if one.size > 0]
    total = sum(one.size for one in filled)
    pieces: list[OffsetInputPartition] = []
    for one in filled:
        count = 1
        if tasks_min is not None and tasks_min > len(filled):
            count = -(-one.size * tasks_min // total)
        if records_max is not None:
            count = max(count, -(-one.size // records_max))
        count = min(count, one.size)
        edges = [one.start + one.size * number // count for number in range(count + 1)]
        pieces += [
            OffsetInputPartition(one.topic, one.partition, one.topic_id, start, end)
            for start, end in pairwise(edges)
        ]
    return pieces


def share_by_lag(lags: Sequence[int], total_max: int) -> list[int]:
    """Return the number of offsets that a batch takes of each partition; all together are at most `total_max`.

    Each gets its share by lag, rounded down, and what is left goes to the first ones. So a batch is never empty.
    """
    total = sum(lags)
    if total <= total_max:
        return list(lags)
    shares = [lag * total_max // total for lag in lags]
    left = total_max - sum(shares)
    for number, lag in enumerate(lags):
        more = min(left, lag - shares[number])
        shares[number] += more
        left -= more
    return shares
