"""Who of a consumer group reads what: server-side assignors by name.

An assignor is a pure function. It is given all members and the partition counts of the topics that exist, and
gives every member its partitions: each partition of a subscribed topic to exactly one member that subscribes
to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
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

# Imported when first used: a broker without consumer groups needs none of them.
ASSIGNORS: Final = ("uniform", "range")


def assignor(name: str) -> Assign:
    """The assignor of that name. Raises KeyError for an unknown one."""
    if name == "uniform":
        from odradek.groups.assignors import uniform

        return uniform.assign
    if name == "range":
        from odradek.groups.assignors import range as ranges

        return ranges.assign
    raise KeyError(name)


def freeze(partitions: Mapping[UUID, set[int]]) -> Assignment:
    """A finished assignment, without topics of which nothing is assigned."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}
