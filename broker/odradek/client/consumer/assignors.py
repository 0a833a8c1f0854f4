"""Assignors: how a group's leader assigns partitions to members.

Range: for each topic, the sorted partitions are split into one range per subscribed member. The first members take one
more each when the split is uneven. Members are ordered by static instance id where they have one, then by member id, as
in Java's client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.foundation.ids import TopicPartition

RANGE = "range"


class Subscriber(NamedTuple):
    """One member and its subscribed topics."""

    member_id: str
    instance_id: str | None
    topics: Sequence[str]


def assign_range(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, every member with an entry. Topics without partitions are left out."""
    assignment: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in subscribers}
    ordered = sorted(
        subscribers,
        key=lambda subscriber: (
            subscriber.instance_id is None,
            subscriber.instance_id or "",
            subscriber.member_id,
        ),
    )
    for topic in sorted({topic for subscriber in subscribers for topic in subscriber.topics}):
        count = partition_counts.get(topic, 0)
        members = [subscriber.member_id for subscriber in ordered if topic in subscriber.topics]
        if not count or not members:
            continue
        share, extra = divmod(count, len(members))
        first = 0
        for index, member_id in enumerate(members):
            size = share + (1 if index < extra else 0)
            assignment[member_id].extend(
                TopicPartition(topic, partition) for partition in range(first, first + size)
            )
            first += size
    return assignment
