"""Consumer groups and the steps that change them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.client.admin.groups import ZOOKEEPER
from odradek.client.results import GroupMember
from odradek.foundation.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualGroup:
    """A group that is there, or one without members and commits (`state` None).

    `committed` has what it has read up to; `fenced_until_ms` is in the past or 0 where its members are let in.
    `resets` are the digests of the ids of resets that have ended or are about to set offsets, the newest last.
    """

    group_id: str
    state: str | None = None
    type: str = ""
    coordinator: int = -1
    members: tuple[GroupMember, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    fenced_until_ms: int = 0
    resets: tuple[str, ...] = ()

    @property
    def is_in_zookeeper(self) -> bool:
        """Whether its consumers share partitions through ZooKeeper: then no broker changes it."""
        return self.type == ZOOKEEPER


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The first record kept and the next to be written (or to be seen by readers of committed records)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """The result of a read. `partitions` are those of every topic that was asked for or committed; a topic that is
    not there has none. `record_times_ms` are of the next record of a group in a partition, by group.
    """

    groups: Mapping[str, ActualGroup]
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ends: Mapping[TopicPartition, PartitionEnds] = field(default_factory=dict)
    record_times_ms: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)


# --- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commit these positions for a group without members."""

    group_id: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SetFence:
    """Keep members out up to a time in milliseconds since 1970; 0 lets them in."""

    group_id: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class RememberResets:
    """Keep these digests of ids with the group, beyond the life of any resource."""

    group_id: str
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group without members, with its offsets."""

    group_id: str


GroupStep = SetOffsets | SetFence | RememberResets | DeleteGroup
