"""StreamsGroupDescribe: Streams groups with their topology, members, epochs and assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.broker.groups.streams.description import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    describe_streams_group,
)
from odradek.broker.groups.streams.group import TaskOffsets
from odradek.broker.groups.streams.tasks import TargetTasks
from odradek.broker.groups.streams.topology import ConfiguredSubtopology, InternalTopic, StreamsSubtopology
from odradek.broker.requests.authorized_operations import of_group
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.broker.requests.streams_group_heartbeat import write_rows
from odradek.foundation.errors import OdradekError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.streams import StreamsGroupDescribeRequest


def handle(request: StreamsGroupDescribeRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    is_asked = request.include_authorized_operations
    groups = [
        {
            **_group(group_id, context, with_topology=request.include_topology_description),
            "authorized_operations": of_group(context, group_id, is_asked=is_asked),
        }
        for group_id in request.group_ids
    ]
    return context.response(groups=groups)


# Of a description of the topology, where one was asked for: no plug-in keeps one here.
_NOT_STORED = 1


def _group(
    group_id: str, context: RequestContext[ConsumerGroupParts], *, with_topology: bool
) -> Mapping[str, object]:
    try:
        group = describe_streams_group(context.broker.groups, group_id)
    except OdradekError as error:
        return {"group_id": group_id, **error_fields(error)}
    return {
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "topology": _topology(group),
        "members": [_member(member) for member in group.members],
        "topology_description_status": _NOT_STORED if with_topology else 0,
        "assignor_name": group.assignor,
    }


def _topology(group: DescribedStreamsGroup) -> Mapping[str, object] | None:
    """With the numbers of partitions where the cluster has every topic, else as members have sent it."""
    if group.topology is None:
        return None
    subtopologies: Sequence[ConfiguredSubtopology | StreamsSubtopology] = group.topology.subtopologies
    if group.configured is not None and group.configured.subtopologies is not None:
        subtopologies = list(group.configured.subtopologies.values())
    return {
        "epoch": group.topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": one.subtopology_id,
                "source_topics": sorted(one.source_topics),
                "repartition_sink_topics": sorted(one.repartition_sink_topics),
                "state_changelog_topics": _topics(one.state_changelog_topics),
                "repartition_source_topics": _topics(one.repartition_source_topics),
            }
            for one in sorted(subtopologies, key=lambda one: one.subtopology_id)
        ],
    }


def _topics(topics: Sequence[InternalTopic]) -> list[Mapping[str, object]]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_configs": [config._asdict() for config in topic.topic_configs],
        }
        for topic in sorted(topics)
    ]


def _member(described: DescribedStreamsMember) -> Mapping[str, object]:
    member = described.member
    endpoint = member.user_endpoint
    return {
        "member_id": described.member_id,
        "member_epoch": described.epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if endpoint is None else endpoint._asdict(),
        "client_tags": [tag._asdict() for tag in member.client_tags],
        "task_offsets": _offsets(described.offsets),
        "task_end_offsets": _offsets(described.end_offsets),
        "assignment": _tasks(described.assigned),
        "target_assignment": _tasks(described.target),
        "is_classic": False,
    }


def _tasks(tasks: TargetTasks) -> Mapping[str, object]:
    return {
        "active_tasks": write_rows(tasks.active),
        "standby_tasks": write_rows(tasks.standby),
        "warmup_tasks": write_rows(tasks.warmup),
    }


def _offsets(offsets: TaskOffsets) -> list[Mapping[str, object]]:
    return [
        {"subtopology_id": subtopology_id, "partition": number, "offset": offset}
        for (subtopology_id, number), offset in sorted(offsets.items())
    ]
