"""Uniform: members get shares of the same size, and keep as many of their partitions as that allows.

Where all members subscribe to the same topics, their shares differ by at most one. Elsewhere partitions move from a
member to a less loaded one that subscribes to their topic. This ends when no single move makes the group more even.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from odradek.broker.groups.consumer.assignors.members import Members, PartitionCounts, freeze
from odradek.broker.groups.consumer.schema import Assignment

TopicPartitionId = tuple[UUID, int]


def assign(members: Members, partition_counts: PartitionCounts) -> dict[str, Assignment]:
    """Spread the partitions of all subscribed topics over the members."""
    if not members:
        return {}
    subscriptions = {spec.topics for spec in members.values()}
    kept = {
        member_id: _list_kept_partitions(members, member_id, partition_counts)
        for member_id in sorted(members)
    }
    owned = {partition for partitions in kept.values() for partition in partitions}
    free = [
        (topic_id, partition)
        for topic_id in sorted({topic_id for topics in subscriptions for topic_id in topics})
        for partition in range(partition_counts.get(topic_id, 0))
        if (topic_id, partition) not in owned
    ]
    if len(subscriptions) == 1:
        _spread_evenly(kept, free)
    else:
        _spread_by_subscription(kept, free, members)
    return {member_id: _by_topic(partitions) for member_id, partitions in kept.items()}


def _list_kept_partitions(
    members: Members, member_id: str, partition_counts: PartitionCounts
) -> list[TopicPartitionId]:
    """The partitions that the member had and may still have."""
    spec = members[member_id]
    return [
        (topic_id, partition)
        for topic_id, partitions in sorted(spec.target.items())
        if topic_id in spec.topics
        for partition in sorted(partitions)
        if partition < partition_counts.get(topic_id, 0)
    ]


def _spread_evenly(kept: dict[str, list[TopicPartitionId]], free: list[TopicPartitionId]) -> None:
    """Take from members above their share, and give to those below it.

    The members that have most get the shares that are larger by one.
    """
    total = len(free) + sum(map(len, kept.values()))
    share, extra = divmod(total, len(kept))
    wanted = {}
    for number, member_id in enumerate(
        sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    ):
        wanted[member_id] = share + (number < extra)
        free += kept[member_id][wanted[member_id] :]
        del kept[member_id][wanted[member_id] :]
    position = 0
    for member_id, partitions in kept.items():
        missing = wanted[member_id] - len(partitions)
        partitions += free[position : position + missing]
        position += missing
    assert position == len(free), "partitions were left over"


def _spread_by_subscription(
    kept: dict[str, list[TopicPartitionId]], free: list[TopicPartitionId], members: Members
) -> None:
    subscribers: dict[UUID, list[str]] = {}
    for member_id in kept:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    # The topics that fewest can take first: the others can still even things out after them.
    for topic_id, partition in sorted(free, key=lambda item: (len(subscribers[item[0]]), item)):
        least = min(subscribers[topic_id], key=lambda member_id: (len(kept[member_id]), member_id))
        kept[least].append((topic_id, partition))
    while _move_some(kept, subscribers):
        pass


def _move_some(kept: dict[str, list[TopicPartitionId]], subscribers: dict[UUID, list[str]]) -> bool:
    """Move partitions to members that have at least two less. Each move makes the sum of squares
    smaller, so it ends.
    """
    moved = False
    for member_id in sorted(kept, key=lambda member_id: -len(kept[member_id])):
        for topic_id in sorted({topic_id for topic_id, _ in kept[member_id]}):
            for partition in [item for item in kept[member_id] if item[0] == topic_id]:
                least = min(subscribers[topic_id], key=lambda other: len(kept[other]))
                if len(kept[least]) + 1 >= len(kept[member_id]):
                    break
                kept[member_id].remove(partition)
                kept[least].append(partition)
                moved = True
    return moved


def _by_topic(partitions: Iterable[TopicPartitionId]) -> Assignment:
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, set()).add(partition)
    return freeze(by_topic)
