"""Algorithm 1: which consumer thread reads which partitions of a topic. Pure (document 000, and 002 "rebalancing").

The documents give each consumer size(P)/size(C) partitions, which leaves the remainder without an owner. Kafka's own
consumers give one partition more to each of the first threads. They share by threads, in the order of their ids as
text: `G_host-1-10` is before `G_host-1-2`. A group of mixed members needs the same rule, so this is Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.client.classic.registrations import Registration
from odradek.foundation.ids import TopicPartition


def thread_id(consumer_id: str, number: int) -> str:
    """The id of a consumer's stream, which owns partitions."""
    return f"{consumer_id}-{number}"


def shares(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
    """The owner of each partition of one topic; none without threads."""
    if not threads:
        return {}
    ordered = sorted(threads)
    each, remainder = divmod(len(partitions), len(ordered))
    numbers = sorted(partitions)
    owners: dict[int, str] = {}
    start = 0
    # Of many threads most may get nothing.
    for position, thread in enumerate(ordered if each else ordered[:remainder]):
        end = start + each + (position < remainder)
        owners |= dict.fromkeys(numbers[start:end], thread)
        start = end
    return owners


def threads_of(topic: str, members: Mapping[str, Registration]) -> list[str]:
    """The threads of all members that read a topic."""
    return [
        thread_id(consumer_id, number)
        for consumer_id, member in members.items()
        for number in range(member.stream_count(topic))
    ]


def own_shares(
    consumer_id: str, members: Mapping[str, Registration], topics: Mapping[str, Collection[int]]
) -> dict[TopicPartition, int]:
    """The partitions of one member, each with the number of its stream. `topics` has the partitions of every topic."""
    own = members[consumer_id]
    # Hundreds of members and topics have few kinds of subscriptions, and so few lists of threads.
    kinds = {member.kind: member for member in members.values()}
    lists: dict[tuple[int, ...], list[str]] = {}
    mine: dict[TopicPartition, int] = {}
    for topic in subscribed(own, topics):
        counts = tuple(member.stream_count(topic) for member in kinds.values())
        if counts not in lists:
            lists[counts] = sorted(threads_of(topic, members))
        numbers = {thread_id(consumer_id, number): number for number in range(own.stream_count(topic))}
        for partition, thread in shares(topics[topic], lists[counts]).items():
            if thread in numbers:
                mine[TopicPartition(topic, partition)] = numbers[thread]
    return mine


def subscribed(member: Registration, topics: Iterable[str]) -> list[str]:
    """The topics among `topics` that a member reads."""
    return sorted(topic for topic in topics if member.stream_count(topic))
