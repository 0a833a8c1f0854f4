"""Responses about groups, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class OffsetCommitResponsePartition(Response):
    partition_index: int
    error_code: int


class OffsetCommitResponseTopic(Response):
    topic_id: UUID | None
    partitions: tuple[OffsetCommitResponsePartition, ...]
    name: str


class OffsetCommitResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[OffsetCommitResponseTopic, ...]


class OffsetFetchResponsePartitions(Response):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int


class OffsetFetchResponseTopics(Response):
    topic_id: UUID | None
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    name: str


class OffsetFetchResponseGroup(Response):
    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: int


class OffsetFetchResponsePartition(Response):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int


class OffsetFetchResponseTopic(Response):
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[OffsetFetchResponseGroup, ...]
    topics: tuple[OffsetFetchResponseTopic, ...]
    error_code: int


class Coordinator(Response):
    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None


class FindCoordinatorResponse(Response):
    throttle_time: timedelta | int
    coordinators: tuple[Coordinator, ...]
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int


class JoinGroupResponseMember(Response):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]


class HeartbeatResponse(Response):
    throttle_time: timedelta | int
    error_code: int


class MemberResponse(Response):
    member_id: str
    group_instance_id: str | None
    error_code: int


class LeaveGroupResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    members: tuple[MemberResponse, ...]


class SyncGroupResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class DescribedGroupMember(Response):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Response):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int


class DescribeGroupsResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[DescribedGroup, ...]


class ListedGroup(Response):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class ListGroupsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    groups: tuple[ListedGroup, ...]


class DeletableGroupResult(Response):
    group_id: str
    error_code: int
    error_message: str | None


class DeleteGroupsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[DeletableGroupResult, ...]


class OffsetDeleteResponsePartition(Response):
    partition_index: int
    error_code: int


class OffsetDeleteResponseTopic(Response):
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(Response):
    error_code: int
    throttle_time: timedelta | int
    topics: tuple[OffsetDeleteResponseTopic, ...]


class TopicPartitions(Response):
    topic_id: UUID | None
    partitions: tuple[int, ...]


class Assignment(Response):
    topic_partitions: tuple[TopicPartitions, ...]


class ConsumerGroupHeartbeatResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta | int
    assignment: Assignment | None


class ConsumerGroupDescribeTopicPartitions(Response):
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...]


class ConsumerGroupDescribeAssignment(Response):
    topic_partitions: tuple[ConsumerGroupDescribeTopicPartitions, ...]


class Member(Response):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: int


class ConsumerGroupDescribedGroup(Response):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: int


class ConsumerGroupDescribeResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[ConsumerGroupDescribedGroup, ...]
