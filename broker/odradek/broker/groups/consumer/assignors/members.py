"""The arguments and the result of an assignor.

An assignor is a pure function of all members and the partition counts of the topics that exist. It assigns each
partition of a subscribed topic to exactly one member that subscribes to the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from odradek.broker.groups.consumer.schema import Assignment
from odradek.foundation.named_tuple import NamedTuple


class MemberSpec(NamedTuple):
    """A member as assignors see it: its topics that exist, and its last target, which they keep where they can."""

    instance_id: str | None
    topics: frozenset[UUID]
    target: Assignment


Members = Mapping[str, MemberSpec]
PartitionCounts = Mapping[UUID, int]
Assign = Callable[[Members, PartitionCounts], dict[str, Assignment]]


def freeze(partitions: Mapping[UUID, set[int]]) -> Assignment:
    """A finished assignment, without topics of which nothing is assigned."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}
