"""A change of a share group that is not written yet: a changed copy, and the records of the change.

A request works on the copy and sees each change that it has made. The group itself changes when the records are in the
log, or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from uuid import UUID

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.schema import ShareRecordKind
from odradek.broker.groups.share.assignor import ShareMember, assign_shares
from odradek.broker.groups.share.group import ShareGroup
from odradek.broker.groups.share.schema import (
    STABLE,
    ShareCurrentValue,
    SharedTopic,
    ShareGroupValue,
    ShareMemberValue,
    ShareStatesValue,
    ShareTargetEpochValue,
    ShareTargetValue,
    ShareValue,
    Topics,
    encode_share_key,
    encode_share_value,
)
from odradek.metadata.image.image import TopicImage

Partitions = Mapping[UUID, frozenset[int]]


class ShareUpdate:
    """`group` is the copy; `records` are to be written in one batch."""

    def __init__(self, group: ShareGroup, context: GroupContext) -> None:
        self.group = group.copy()
        self.records: list[EncodedRecord] = []
        self._context = context
        # One image throughout: a thread may plan this while the cluster changes.
        self._image = context.images.current
        self.topics: Mapping[str, TopicImage] = self._image.topics

    def put(self, kind: int, name: str | None, value: ShareValue | None) -> None:
        """Change the copy, and add the record of the change."""
        self.group.apply(kind, name or "", value)
        key = encode_share_key(kind, self.group.group_id, name)
        self.records.append((key, None if value is None else encode_share_value(value)))

    # --- members --------------------------------------------------------------------------------------------

    def remove_member(self, member_id: str) -> None:
        self.put(ShareRecordKind.CURRENT, member_id, None)
        self.put(ShareRecordKind.TARGET, member_id, None)
        self.put(ShareRecordKind.MEMBER, member_id, None)

    def update_member(self, member_id: str, member: ShareMemberValue) -> bool:
        """Store what the member asks for; returns whether the group needs a new assignment."""
        known = self.group.members.get(member_id)
        if known == member:
            return False
        self.put(ShareRecordKind.MEMBER, member_id, member)
        return known is None or set(known.topic_names) != set(member.topic_names)

    # --- epochs ---------------------------------------------------------------------------------------------

    def refresh(self, *, is_changed: bool) -> bool:
        """Begin a new epoch where members or topics are others, or states have been made; returns whether."""
        value = self.group.value
        metadata_hash = self._metadata_hash()
        if not is_changed and metadata_hash == value.metadata_hash and not self._has_unassigned():
            return False
        self.put(ShareRecordKind.GROUP, None, ShareGroupValue(value.epoch + 1, metadata_hash))
        return True

    def bump_epoch(self) -> None:
        """Members have gone. The topics are compared again by those that stay."""
        value = self.group.value
        self.put(ShareRecordKind.GROUP, None, value._replace(epoch=value.epoch + 1))

    def _metadata_hash(self) -> int:
        digest = hashlib.blake2b(digest_size=8)
        for name in self.group.list_subscribed_topics():
            topic = self.topics.get(name)
            if topic is not None:
                digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    def _has_unassigned(self) -> bool:
        """Whether partitions that members subscribe to may be assigned, and none of them should read those so far."""
        group = self.group
        if group.is_empty or group.target_epoch < group.epoch:
            return False
        assigned: dict[UUID, set[int]] = {}
        for target in group.targets.values():
            for topic_id, numbers in target.partitions.items():
                assigned.setdefault(topic_id, set()).update(numbers)
        return any(
            not numbers <= assigned.get(topic_id, set()) for topic_id, numbers in self._assignable().items()
        )

    def _assignable(self) -> Partitions:
        """The partitions whose state is there, of topics that members subscribe to."""
        initialized = self.group.states.initialized
        found: dict[UUID, frozenset[int]] = {}
        for name in self.group.list_subscribed_topics():
            topic = self.topics.get(name)
            known = None if topic is None else initialized.get(topic.id)
            if topic is not None and known is not None:
                found[topic.id] = frozenset(one for one in known.partitions if one < len(topic.partitions))
        return found

    # --- assignments ----------------------------------------------------------------------------------------

    def is_assignment_due(self) -> bool:
        """Whether the target is behind, and the last one was computed long enough ago."""
        group = self.group
        if group.target_epoch >= group.epoch:
            return False
        interval_ms = self._context.share_value("assignment.interval.ms", group.group_id)
        since_ms = self._context.clock.wall_ms() - group.target_value.timestamp_ms
        return group.target_value.timestamp_ms == 0 or not 0 <= since_ms < interval_ms

    def update_target(self) -> None:
        """Compute the target assignment of the group's epoch."""
        group = self.group
        members = {
            member_id: ShareMember(
                frozenset(self.topics[name].id for name in member.topic_names if name in self.topics),
                group.target(member_id).partitions,
            )
            for member_id, member in group.members.items()
        }
        targets = assign_shares(members, self._assignable())
        for member_id, partitions in targets.items():
            if member_id not in group.targets or group.targets[member_id].partitions != partitions:
                self.put(ShareRecordKind.TARGET, member_id, ShareTargetValue(partitions))
        now_ms = self._context.clock.wall_ms()
        self.put(ShareRecordKind.TARGET_EPOCH, None, ShareTargetEpochValue(group.epoch, now_ms))

    def reconcile(self, member_id: str) -> ShareCurrentValue:
        """Give the member its target."""
        current = self.group.current(member_id)
        target = self.group.target(member_id).partitions
        if current.member_epoch == self.group.target_epoch and current.assigned == target:
            return current
        updated = ShareCurrentValue(self.group.target_epoch, current.member_epoch, STABLE, target)
        self.put(ShareRecordKind.CURRENT, member_id, updated)
        return updated

    # --- states of share-partitions -------------------------------------------------------------------------

    def find_new_partitions(self, *, again: bool) -> Partitions:
        """The partitions that members subscribe to and that no state was asked for; with `again`, also those asked."""
        states = self.group.states
        wanted: dict[UUID, frozenset[int]] = {}
        for name in self.group.list_subscribed_topics():
            topic = self.topics.get(name)
            if topic is None:
                continue
            known = set(_numbers(states.initialized, topic.id))
            if not again:
                known |= _numbers(states.initializing, topic.id)
            missing = frozenset(range(len(topic.partitions))) - known
            if missing:
                wanted[topic.id] = missing
        return wanted

    def begin_states(self, partitions: Partitions) -> None:
        """Note that the states of these partitions are asked for."""
        states = self.group.states
        initializing = self._join(states.initializing, partitions)
        deleting = {one: topic for one, topic in states.deleting.items() if one not in partitions}
        self._put_states(states._replace(initializing=initializing, deleting=deleting))

    def end_states(self, partitions: Partitions) -> None:
        """Note that the states of these partitions are there."""
        states = self.group.states
        initializing = _without(states.initializing, partitions)
        initialized = self._join(states.initialized, partitions)
        self._put_states(states._replace(initializing=initializing, initialized=initialized))

    def begin_deletion(self, topic_ids: Iterable[UUID]) -> None:
        """Note that the states of topics are to be deleted."""
        states = self.group.states
        gone = set(topic_ids)
        named = {**states.initializing, **states.initialized}
        deleting = {**states.deleting, **{one: SharedTopic(named[one].name) for one in gone if one in named}}
        self._put_states(
            ShareStatesValue(
                {one: topic for one, topic in states.initializing.items() if one not in gone},
                {one: topic for one, topic in states.initialized.items() if one not in gone},
                deleting,
            )
        )

    def forget_states(self) -> None:
        """Note that no state is left, as Kafka does before it deletes a group."""
        self.put(ShareRecordKind.STATES, None, ShareStatesValue())

    def end_deletion(self, topic_ids: Iterable[UUID]) -> None:
        """Note that the states of topics are deleted."""
        gone = set(topic_ids)
        states = self.group.states
        deleting = {one: topic for one, topic in states.deleting.items() if one not in gone}
        self._put_states(states._replace(deleting=deleting))

    def forget_topics(self, topic_ids: Iterable[UUID]) -> None:
        """Forget topics that the cluster no longer has."""
        gone = set(topic_ids)
        kept = (
            {one: topic for one, topic in topics.items() if one not in gone} for topics in self.group.states
        )
        self._put_states(ShareStatesValue(*kept))

    def _put_states(self, states: ShareStatesValue) -> None:
        if states != self.group.states:
            self.put(ShareRecordKind.STATES, None, states)

    def _join(self, topics: Topics, partitions: Partitions) -> Topics:
        joined = dict(topics)
        for topic_id, numbers in partitions.items():
            known = joined.get(topic_id)
            topic = self._image.topics_by_id.get(topic_id)
            name = known.name if known is not None else "" if topic is None else topic.name
            joined[topic_id] = SharedTopic(name, numbers if known is None else known.partitions | numbers)
        return joined


def _numbers(topics: Topics, topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _without(topics: Topics, partitions: Partitions) -> Topics:
    left = {}
    for topic_id, topic in topics.items():
        numbers = topic.partitions - partitions.get(topic_id, frozenset())
        if numbers:
            left[topic_id] = topic._replace(partitions=numbers)
    return left
