"""Responses about Streams groups, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta

from odradek.wire.protocol.responses import Response


class Status(Response):
    status_code: int
    status_detail: str


class TaskIds(Response):
    subtopology_id: str
    partitions: tuple[int, ...]


class StreamsGroupHeartbeatTaskIds(Response):
    subtopology_id: str
    partitions: tuple[int, ...]


class StreamsGroupHeartbeatEndpoint(Response):
    host: str
    port: int


class StreamsGroupHeartbeatTopicPartition(Response):
    topic: str
    partitions: tuple[int, ...]


class EndpointToPartitions(Response):
    user_endpoint: StreamsGroupHeartbeatEndpoint
    active_partitions: tuple[StreamsGroupHeartbeatTopicPartition, ...]
    standby_partitions: tuple[StreamsGroupHeartbeatTopicPartition, ...]


class StreamsGroupHeartbeatResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval: timedelta | int
    task_offset_interval: timedelta | int
    acceptable_recovery_lag: int
    status: tuple[Status, ...] | None
    active_tasks: tuple[TaskIds, ...] | None
    standby_tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] | None
    warmup_tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] | None
    topology_description_required: bool
    endpoint_information_epoch: int
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None


class KeyValue(Response):
    key: str
    value: str


class StreamsGroupDescribeTopicInfo(Response):
    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[KeyValue, ...]


class Subtopology(Response):
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsGroupDescribeTopicInfo, ...]
    repartition_source_topics: tuple[StreamsGroupDescribeTopicInfo, ...]


class Topology(Response):
    epoch: int
    subtopologies: tuple[Subtopology, ...] | None


class StreamsGroupDescribeEndpoint(Response):
    host: str
    port: int


class StreamsGroupDescribeKeyValue(Response):
    key: str
    value: str


class TaskOffset(Response):
    subtopology_id: str
    partition: int
    offset: int


class StreamsGroupDescribeTaskOffset(Response):
    subtopology_id: str
    partition: int
    offset: int


class StreamsGroupDescribeTaskIds(Response):
    subtopology_id: str
    partitions: tuple[int, ...]


class StreamsGroupDescribeAssignment(Response):
    active_tasks: tuple[StreamsGroupDescribeTaskIds, ...]
    standby_tasks: tuple[StreamsGroupDescribeTaskIds, ...]
    warmup_tasks: tuple[StreamsGroupDescribeTaskIds, ...]


class StreamsGroupDescribeMember(Response):
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: StreamsGroupDescribeEndpoint | None
    client_tags: tuple[StreamsGroupDescribeKeyValue, ...]
    task_offsets: tuple[TaskOffset, ...]
    task_end_offsets: tuple[StreamsGroupDescribeTaskOffset, ...]
    assignment: StreamsGroupDescribeAssignment
    target_assignment: StreamsGroupDescribeAssignment
    is_classic: bool


class StreamsGroupDescribedGroup(Response):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: Topology | None
    members: tuple[StreamsGroupDescribeMember, ...]
    authorized_operations: int
    topology_description: int
    topology_description_status: int
    assignor_name: str | None


class StreamsGroupDescribeResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[StreamsGroupDescribedGroup, ...]
