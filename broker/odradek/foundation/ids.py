"""The ids of brokers, partitions and producers.

They are plain tuples and numbers, cheap to hash: a request for a thousand partitions makes a thousand of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final, NewType

from odradek.foundation.named_tuple import NamedTuple

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
TopicId = uuid.UUID

NO_PRODUCER_ID = ProducerId(-1)
NO_LEADER_EPOCH = -1
NO_TIMESTAMP_MS = -1
# The principal of a client that has not logged in, by Kafka's name.
ANONYMOUS: Final = "User:ANONYMOUS"


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as its directory's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of partitions by topic, in order, as most messages of the protocol have them."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return numbers


def flat(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    """The inverse of `by_topic(...).items()`."""
    return tuple(TopicPartition(topic, number) for topic, numbers in topics for number in numbers)
