"""What an assignor is given and what it gives.

An assignor is a pure function. It is given all members and the partition counts of the topics that exist, and
gives every member its partitions: each partition of a subscribed topic to exactly one member that subscribes
to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from odradek.groups.consumer_schema import Assignment


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What an assignor knows of a member: its topics (that exist), and its target so far, to be kept
    if it can.
    """

    instance_id: str | None
    topics: frozenset[UUID]
    target: Assignment


Members = Mapping[str, MemberSpec]
PartitionCounts = Mapping[UUID, int]
Assign = Callable[[Members, PartitionCounts], dict[str, Assignment]]


def freeze(partitions: Mapping[UUID, set[int]]) -> Assignment:
    """A finished assignment, without topics of which nothing is assigned."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}
