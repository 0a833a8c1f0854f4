"""A change of a consumer group that is not written yet: a changed copy, and the records of the change.

A request works on the copy and sees each change that it has made. The group itself changes when the records are in the
log, or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import merge
from itertools import groupby
from typing import Protocol
from uuid import UUID

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.consumer.assignors import assignor
from odradek.broker.groups.consumer.assignors.members import MemberSpec
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.reconciliation import Owned, reconcile
from odradek.broker.groups.consumer.schema import (
    Assignment,
    CurrentValue,
    GroupValue,
    MemberValue,
    PatternValue,
    RecordKind,
    TargetEpochValue,
    TargetValue,
    Value,
    encode_key,
    encode_value,
)
from odradek.broker.groups.context import GroupContext
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.turn_limits import GROUP_NAMES_PLANNED_AT_ONCE_MAX
from odradek.metadata.image.image import TopicImage

Topics = Mapping[str, TopicImage]


class GroupUpdate:
    """`group` is the copy; `records` are to be written in one batch."""

    def __init__(self, group: ConsumerGroup, context: GroupContext) -> None:
        self.group = group.copy()
        self.records: list[EncodedRecord] = []
        self._context = context
        # One image throughout: a thread may plan this while the cluster changes.
        self._image = context.images.current
        self.topics: Topics = self._image.topics

    def put(self, kind: int, name: str | None, value: Value | None) -> None:
        """Change the copy, and add the record of the change."""
        self.group.apply(kind, name or "", value)
        key = encode_key(kind, self.group.group_id, name)
        self.records.append((key, None if value is None else encode_value(value)))

    # --- members --------------------------------------------------------------------------------------------

    def remove_member(self, member_id: str) -> None:
        self.put(RecordKind.CURRENT, member_id, None)
        self.put(RecordKind.TARGET, member_id, None)
        self.put(RecordKind.MEMBER, member_id, None)

    def replace_member(self, old_member_id: str, new_member_id: str) -> None:
        """A static member returns under another id: the new id takes over the records of the old one."""
        group = self.group
        member, target = group.members[old_member_id], group.target(old_member_id)
        taken_over = group.current(old_member_id)._replace(member_epoch=0, previous_member_epoch=0)
        self.remove_member(old_member_id)
        self.put(RecordKind.MEMBER, new_member_id, member)
        self.put(RecordKind.TARGET, new_member_id, TargetValue(target))
        self.put(RecordKind.CURRENT, new_member_id, taken_over)

    def update_member(self, member_id: str, member: MemberValue) -> bool:
        """Store what the member asks for; returns whether the group needs a new assignment."""
        known = self.group.members.get(member_id)
        if known == member:
            return False
        self.put(RecordKind.MEMBER, member_id, member)
        if known is None or set(known.topic_names) != set(member.topic_names):
            return True
        # A new pattern is another subscription, even if it stands for the same topics.
        return (known.topic_regex or "") != (member.topic_regex or "")

    def advance(self, member_id: str, member: MemberValue) -> None:
        """Store what the member asks for, and compute a new target when that or the topics have changed."""
        has_other_topics = self.update_member(member_id, member)
        if self.refresh_topics() or has_other_topics:
            self.bump_epoch()
        if self.is_assignment_due():
            self.update_target()

    # --- epochs ---------------------------------------------------------------------------------------------

    def refresh_topics(self) -> bool:
        """Resolve patterns and compare partition counts again; returns whether anything relevant has changed."""
        has_other_matches = self._refresh_patterns()
        before, self.group.metadata_hash = self.group.metadata_hash, self._metadata_hash()
        return has_other_matches or self.group.metadata_hash != before

    def _refresh_patterns(self) -> bool:
        group = self.group
        changed = False
        wanted = {member.topic_regex for member in group.members.values() if member.topic_regex}
        for pattern in [known for known in group.patterns if known not in wanted]:
            self.put(RecordKind.PATTERN, pattern, None)
        for pattern in sorted(wanted):
            topics = self._context.patterns.matches(pattern, self.topics)
            known = group.patterns.get(pattern)
            if known is None or known.topics != topics:
                changed = True
                now_ms = self._context.clock.wall_ms()
                self.put(RecordKind.PATTERN, pattern, PatternValue(topics, now_ms, now_ms))
        return changed

    def _metadata_hash(self) -> int:
        digest = hashlib.blake2b(digest_size=8)
        # Nearly all names of a large subscription may be of no topic.
        for name in sort_unique(
            [name for name in self.group.list_subscribed_topics() if name in self.topics]
        ):
            topic = self.topics[name]
            digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    def bump_epoch(self) -> None:
        """The assignment may have to change."""
        self.put(RecordKind.GROUP, None, GroupValue(self.group.epoch + 1, self.group.metadata_hash))

    def is_assignment_due(self) -> bool:
        """Whether the target is behind, and the last one was computed long enough ago."""
        group = self.group
        if group.target_epoch >= group.epoch:
            return False
        passed_ms = self._context.clock.wall_ms() - group.target_at_ms
        # A broker whose clock is ahead may have computed it. The group does not wait until that time has come.
        return group.target_at_ms == 0 or not 0 <= passed_ms < self._interval_ms

    @cached_property
    def _interval_ms(self) -> int:
        return self._context.consumer_value("assignment.interval.ms", self.group.group_id)

    def update_target(self) -> None:
        """Compute the target assignment of the group's epoch."""
        group = self.group
        members = {member_id: self._spec(member_id) for member_id in group.members}
        topic_ids = {topic_id for spec in members.values() for topic_id in spec.topics}
        by_id = self._image.topics_by_id
        counts = {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids}
        targets = assignor(choose_assignor(group, self._context.settings))(members, counts)
        for member_id in group.members:
            target = targets.get(member_id, {})
            if member_id not in group.targets or group.targets[member_id] != target:
                self.put(RecordKind.TARGET, member_id, TargetValue(target))
        # Where no assignment waits, the record is Kafka 4.1's byte for byte.
        at_ms = self._context.clock.wall_ms() if self._interval_ms else 0
        self.put(RecordKind.TARGET_EPOCH, None, TargetEpochValue(group.epoch, at_ms))

    def _spec(self, member_id: str) -> MemberSpec:
        member = self.group.members[member_id]
        names = set(member.topic_names)
        if member.topic_regex and member.topic_regex in self.group.patterns:
            names.update(self.group.patterns[member.topic_regex].topics)
        topics = frozenset(self.topics[name].id for name in names if name in self.topics)
        return MemberSpec(member.instance_id, topics, self.group.target(member_id))

    # --- assignments ----------------------------------------------------------------------------------------

    def reconcile(self, member_id: str, owned: Owned | None) -> CurrentValue:
        """Let the member take its next step."""
        group = self.group
        current = group.current(member_id)
        updated = reconcile(
            current,
            target_epoch=group.target_epoch,
            target=group.target(member_id),
            is_held=lambda topic_id, partition: (topic_id, partition) in group.owners,
            owned=owned,
        )
        if updated != current or member_id not in group.currents:
            self.put(RecordKind.CURRENT, member_id, updated)
        return updated

    def forget_current(self, member_id: str) -> None:
        """The member starts over and owns nothing; its next step records it."""
        self.group.apply(RecordKind.CURRENT, member_id, None)


def choose_assignor(group: ConsumerGroup, settings: Settings) -> str:
    """The server-side assignor that most members ask for, else the first of group.consumer.assignors."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        if member.server_assignor:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    default: str = settings.group_consumer_assignors[0]
    return max(votes, key=lambda name: (votes[name], name)) if votes else default


def sort_unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names sorted, each once. Many are sorted in pieces, in between which other threads run."""
    if len(names) <= GROUP_NAMES_PLANNED_AT_ONCE_MAX:
        return tuple(sorted(set(names)))
    pieces = [
        sorted(names[start : start + GROUP_NAMES_PLANNED_AT_ONCE_MAX])
        for start in range(0, len(names), GROUP_NAMES_PLANNED_AT_ONCE_MAX)
    ]
    return tuple(name for name, _ in groupby(merge(*pieces)))


class OwnedTopic(Protocol):
    """The partitions of one topic in a heartbeat."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> Sequence[int]: ...


def as_assignment(topics: Sequence[OwnedTopic] | None) -> Owned | None:
    """The partitions that a member owns by its heartbeat; None when it does not say."""
    if topics is None:
        return None
    owned: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def is_part_of(owned: Owned | None, assigned: Assignment) -> bool:
    """Whether all that is owned is assigned; unknown is not."""
    return owned is not None and all(
        partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items()
    )
