"""A Streams group as administrators see it."""

from __future__ import annotations

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.streams.assignor import NO_OFFSETS, STICKY
from odradek.broker.groups.streams.group import TaskOffsets
from odradek.broker.groups.streams.schema import StreamsMemberValue
from odradek.broker.groups.streams.tasks import TargetTasks
from odradek.broker.groups.streams.topology import ConfiguredTopology, StreamsTopology, configure
from odradek.foundation.errors import InvalidGroupId, StreamsInvalidTopology
from odradek.foundation.named_tuple import NamedTuple


class DescribedStreamsMember(NamedTuple):
    """One member, with what it runs and should run, and the changelog offsets that it has reported."""

    member_id: str
    member: StreamsMemberValue
    epoch: int
    assigned: TargetTasks
    target: TargetTasks
    offsets: TaskOffsets
    end_offsets: TaskOffsets


class DescribedStreamsGroup(NamedTuple):
    """`configured` is the topology beside the cluster's topics, where they fit it."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    topology: StreamsTopology | None
    configured: ConfiguredTopology | None
    members: list[DescribedStreamsMember]


def describe_streams_group(groups: GroupCoordinator, group_id: str) -> DescribedStreamsGroup:
    """Raises GroupIdNotFound when there is none, InvalidGroupId, UnsupportedVersion, and what routing raises."""
    groups.context.check_streams_protocol()
    if not group_id:
        raise InvalidGroupId("the group id must not be empty; set application.id")
    table = groups.runtime.shard(group_id).machine.groups
    group = table.streams(group_id)
    if group is None:
        raise table.missing(group_id, "streams")
    members = []
    for member_id, member in group.members.items():
        current = group.current(member_id)
        members.append(
            DescribedStreamsMember(
                member_id,
                member,
                current.member_epoch,
                current.assigned.without_epochs(),
                group.target(member_id),
                group.offsets.get(member_id, NO_OFFSETS),
                group.end_offsets.get(member_id, NO_OFFSETS),
            )
        )
    return DescribedStreamsGroup(
        group.state_name,
        group.epoch,
        group.target_epoch,
        STICKY,
        group.topology,
        _configure_ready(groups, group.topology),
        members,
    )


def _configure_ready(groups: GroupCoordinator, topology: StreamsTopology | None) -> ConfiguredTopology | None:
    """The topology with numbers of partitions, where every topic is there."""
    if topology is None:
        return None
    topics = groups.context.images.current.topics
    try:
        configured = configure(
            topology, lambda name: len(topics[name].partitions) if name in topics else None
        )
    except StreamsInvalidTopology:
        return None
    return configured if configured.is_ready else None
