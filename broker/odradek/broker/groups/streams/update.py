"""A change of a Streams group that is not written yet: a changed copy, and the records of the change.

A request works on the copy and sees each change that it has made. The group itself changes when the records are in the
log, or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.schema import StreamsRecordKind
from odradek.broker.groups.streams.assignor import NO_OFFSETS, MemberTasks, assign_tasks
from odradek.broker.groups.streams.group import StreamsGroup, TaskOffsets
from odradek.broker.groups.streams.reconciliation import is_reconciled, take_step
from odradek.broker.groups.streams.schema import (
    NO_TOPOLOGY_EPOCH,
    AssignmentConfig,
    StreamsCurrentValue,
    StreamsMemberValue,
    StreamsTargetEpochValue,
    StreamsTargetValue,
    StreamsValue,
    encode_streams_key,
    encode_streams_value,
)
from odradek.broker.groups.streams.tasks import NO_TARGET, TargetTasks, number_tasks
from odradek.broker.groups.streams.topology import (
    ConfiguredTopology,
    StreamsStatus,
    StreamsTopology,
    configure,
)
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import TopicImage

STANDBY_REPLICAS = "num.standby.replicas"
RACK_TAGS = "rack.aware.assignment.tags"

Topics = Mapping[str, TopicImage]


class StreamsUpdate:
    """`group` is the copy; `records` are to be written in one batch."""

    def __init__(self, group: StreamsGroup, context: GroupContext) -> None:
        self.group = group.copy()
        self.records: list[EncodedRecord] = []
        self._context = context
        # One image throughout: a thread may plan this while the cluster changes.
        self.topics: Topics = context.images.current.topics

    def put(self, kind: int, name: str | None, value: StreamsValue | None) -> None:
        """Change the copy, and add the record of the change."""
        self.group.apply(kind, name or "", value)
        key = encode_streams_key(kind, self.group.group_id, name)
        self.records.append((key, None if value is None else encode_streams_value(value)))

    # --- members --------------------------------------------------------------------------------------------

    def remove_member(self, member_id: str) -> None:
        self.put(StreamsRecordKind.CURRENT, member_id, None)
        self.put(StreamsRecordKind.TARGET, member_id, None)
        self.put(StreamsRecordKind.MEMBER, member_id, None)

    def replace_member(self, old_member_id: str, new_member_id: str) -> None:
        """A static member returns under another id: the new id takes over the records of the old one."""
        group = self.group
        member, target = group.members[old_member_id], group.target(old_member_id)
        taken_over = group.current(old_member_id)._replace(member_epoch=0, previous_member_epoch=0)
        self.remove_member(old_member_id)
        self.put(StreamsRecordKind.MEMBER, new_member_id, member)
        self.put(StreamsRecordKind.TARGET, new_member_id, StreamsTargetValue(target))
        self.put(StreamsRecordKind.CURRENT, new_member_id, taken_over)

    def update_member(self, member_id: str, member: StreamsMemberValue) -> bool:
        """Store what the member is; returns whether the group needs another assignment."""
        known = self.group.members.get(member_id)
        if known == member:
            return False
        self.put(StreamsRecordKind.MEMBER, member_id, member)
        if member.instance_id is None or known is None:
            return True
        # A static member that has restarted elsewhere keeps its tasks.
        return (known.topology_epoch, known.rack_id, known.client_tags, known.process_id) != (
            member.topology_epoch,
            member.rack_id,
            member.client_tags,
            member.process_id,
        )

    # --- topology -------------------------------------------------------------------------------------------

    def update_topology(self, topology: StreamsTopology | None) -> None:
        """Store the first topology. Raises InvalidRequest for a change of it, which Kafka does not take either."""
        known = self.group.topology
        if topology is None or (known is not None and known.epoch > topology.epoch):
            return
        if known is None:
            self.put(StreamsRecordKind.TOPOLOGY, None, topology)
        elif not known.is_same(topology):
            raise InvalidRequest("Topology updates are not supported yet.")

    def configure(self) -> ConfiguredTopology:
        """The topology beside the cluster's topics. Raises StreamsInvalidTopology for one that can never run."""
        group = self.group
        if group.configured is None or group.topics_seen is not self.topics:
            if group.topology is None:
                raise InvalidRequest(f"the group {group.group_id!r} has no topology; join it again")
            group.configured = configure(group.topology, self.count_partitions)
            group.topics_seen = self.topics
        return group.configured

    def count_partitions(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return None if found is None else len(found.partitions)

    def _metadata_hash(self) -> int:
        if self.group.topology is None:
            return self.group.value.metadata_hash
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(
            name for name in self.group.topology.list_required_topics() if name in self.topics
        ):
            topic = self.topics[name]
            digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    # --- epochs ---------------------------------------------------------------------------------------------

    def refresh(self, *, is_changed: bool) -> bool:
        """Begin a new epoch where the topics, the topology or settings are others; returns whether.

        `is_changed` says that members are.
        """
        value = self.group.value
        configured = self.configure()
        updated = value._replace(
            metadata_hash=self._metadata_hash(),
            validated_topology_epoch=configured.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH,
            last_assignment_configs=read_assignment_configs(self._context, self.group.group_id),
        )
        if updated == value and not is_changed:
            return False
        self.put(StreamsRecordKind.GROUP, None, updated._replace(epoch=value.epoch + 1))
        return True

    def bump_epoch(self) -> None:
        """Members have gone. The topics are compared again by those that stay."""
        value = self.group.value
        self.put(StreamsRecordKind.GROUP, None, value._replace(epoch=value.epoch + 1))
        if self.group.is_empty:
            # The next first member begins with an assignment of its own.
            self.put(StreamsRecordKind.TARGET_EPOCH, None, StreamsTargetEpochValue(self.group.epoch))

    def is_assignment_due(self) -> bool:
        """Whether the target is behind, and the last one was computed long enough ago."""
        if self.group.target_epoch >= self.group.epoch:
            return False
        interval_ms = self._context.streams_value("assignment.interval.ms", self.group.group_id)
        passed_ms = self._context.clock.wall_ms() - self.group.target_value.timestamp_ms
        # A broker whose clock is ahead may have computed it. The group does not wait until that time has come.
        return not 0 <= passed_ms < interval_ms

    def update_target(self) -> None:
        """Compute the target assignment of the group's epoch."""
        group = self.group
        configured = self.configure()
        targets: Mapping[str, TargetTasks] = {}
        if configured.is_ready and configured.subtopologies is not None:
            members = {member_id: self._describe_member(member_id) for member_id in group.members}
            configs = {config.key: config.value for config in group.value.last_assignment_configs}
            replicas = int(configs.get(STANDBY_REPLICAS, 0))
            targets = assign_tasks(members, configured.subtopologies, standby_replicas=replicas)
        for member_id in list(group.members):
            target = targets.get(member_id, NO_TARGET)
            if member_id not in group.targets or group.targets[member_id] != target:
                self.put(StreamsRecordKind.TARGET, member_id, StreamsTargetValue(target))
        computed = StreamsTargetEpochValue(group.epoch, self._context.clock.wall_ms())
        self.put(StreamsRecordKind.TARGET_EPOCH, None, computed)

    def _describe_member(self, member_id: str) -> MemberTasks:
        held = self.group.current(member_id).assigned
        return MemberTasks(
            self.group.members[member_id].process_id,
            number_tasks(held.active),
            held.standby,
            self.group.offsets.get(member_id, NO_OFFSETS),
        )

    # --- assignments ----------------------------------------------------------------------------------------

    def reconcile(
        self, member_id: str, owned: TargetTasks | None, *, is_delayed: bool
    ) -> StreamsCurrentValue:
        """Let the member take its next step. While the first assignment waits, it runs nothing."""
        group = self.group
        current = group.current(member_id)
        if is_reconciled(current, group.target_epoch) and member_id in group.currents:
            return current
        updated = take_step(
            current,
            process_id=group.members[member_id].process_id,
            target_epoch=group.target_epoch,
            target=NO_TARGET if is_delayed else group.target(member_id),
            holders=group,
            owned=owned,
        )
        if updated != current or member_id not in group.currents:
            self.put(StreamsRecordKind.CURRENT, member_id, updated)
        return updated


class StreamsStep(NamedTuple):
    """What a heartbeat changes: the group's update, and the member before and after."""

    update: StreamsUpdate
    before: StreamsCurrentValue
    current: StreamsCurrentValue
    configured: ConfiguredTopology
    statuses: tuple[StreamsStatus, ...]
    has_new_epoch: bool
    has_other_endpoint: bool
    has_other_tasks: bool
    names_tasks: bool
    """Whether the answer has the member's tasks."""
    offsets: TaskOffsets | None
    end_offsets: TaskOffsets | None


def read_assignment_configs(context: GroupContext, group_id: str) -> tuple[AssignmentConfig, ...]:
    """The settings that an assignment depends on. A change of one begins a new epoch."""
    replicas = context.streams_value(STANDBY_REPLICAS, group_id)
    configs = [AssignmentConfig(STANDBY_REPLICAS, str(replicas))]
    tags = context.streams_rack_tags(group_id)
    if tags:
        configs.append(AssignmentConfig(RACK_TAGS, ",".join(tags)))
    return tuple(configs)
