"""Consumer groups, share groups, and the steps that change them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.client.admin.groups import SHARE, ZOOKEEPER
from odradek.client.results import GroupMember
from odradek.foundation.ids import TopicPartition


class ExpectedGroup(NamedTuple):
    """What is asked about a group: the topics that it is to read, the settings looked at, its dead-letter topic.

    `is_queue`: it is to be a share group. One that is not there yet is taken for what it is to be.
    """

    topics: tuple[str, ...] = ()
    setting_keys: tuple[str, ...] = ()
    dead_letter_topic: str | None = None
    is_queue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualGroup:
    """A group that is there, or one without members and commits (`state` None).

    `committed` has what it has read up to; `fenced_until_ms` is in the past or 0 where its members are let in.
    `resets` are the digests of the ids of resets that have ended or are about to set offsets, the newest last.
    Of a share group `committed` has the first record that is not done, and `undone` how many are not from there on.
    `settings` are the looked-at settings that are the group's own, `begins_at` the value of share.auto.offset.reset.
    """

    group_id: str
    state: str | None = None
    type: str = ""
    coordinator: int = -1
    members: tuple[GroupMember, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    fenced_until_ms: int = 0
    resets: tuple[str, ...] = ()
    undone: Mapping[TopicPartition, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    begins_at: str = ""

    @property
    def is_queue(self) -> bool:
        """Whether it is a share group: its members share records, and progress is not an offset."""
        return self.type == SHARE

    @property
    def is_in_zookeeper(self) -> bool:
        """Whether its consumers share partitions through ZooKeeper: then no broker changes it."""
        return self.type == ZOOKEEPER


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The first record kept and the next to be written (or to be seen by readers of committed records)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DeadLetterRules:
    """What the brokers want of a dead-letter topic. `allowing` are the looked-at topics that take dead letters."""

    prefix: str = ""
    creates_topics: bool = False
    allowing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """The result of a read. `partitions` are those of every topic that was asked for or committed; a topic that is
    not there has none. `record_times_ms` are of the next record of a group in a partition, by group.
    `dead_letter_rules` is None where no group names a dead-letter topic, or where the rules are not known.
    """

    groups: Mapping[str, ActualGroup]
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ends: Mapping[TopicPartition, PartitionEnds] = field(default_factory=dict)
    record_times_ms: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    dead_letter_rules: DeadLetterRules | None = None


# --- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commit these positions for a group without members. A share group begins at them."""

    group_id: str
    offsets: Mapping[TopicPartition, int]
    is_queue: bool = False


@dataclass(frozen=True, slots=True)
class AlterSettings:
    """Change these settings of a group; None for the brokers' value."""

    group_id: str
    changes: Mapping[str, str | None]


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


GroupStep = SetOffsets | AlterSettings | SetFence | RememberResets | DeleteGroup
