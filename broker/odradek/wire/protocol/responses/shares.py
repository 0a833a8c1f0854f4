"""Responses about share groups, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class ShareGroupHeartbeatTopicPartitions(Response):
    topic_id: UUID | None
    partitions: tuple[int, ...]


class ShareGroupHeartbeatAssignment(Response):
    topic_partitions: tuple[ShareGroupHeartbeatTopicPartitions, ...]


class ShareGroupHeartbeatResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta | int
    assignment: ShareGroupHeartbeatAssignment | None


class ShareGroupDescribeTopicPartitions(Response):
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...]


class ShareGroupDescribeAssignment(Response):
    topic_partitions: tuple[ShareGroupDescribeTopicPartitions, ...]


class ShareGroupDescribeMember(Response):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: ShareGroupDescribeAssignment


class ShareGroupDescribedGroup(Response):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[ShareGroupDescribeMember, ...]
    authorized_operations: int


class ShareGroupDescribeResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[ShareGroupDescribedGroup, ...]


class LeaderIdAndEpoch(Response):
    leader_id: int
    leader_epoch: int


class AcquiredRecords(Response):
    first_offset: int
    last_offset: int
    delivery_count: int


class ShareFetchPartitionData(Response):
    partition_index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: LeaderIdAndEpoch
    records: bytes
    acquired_records: tuple[AcquiredRecords, ...]


class ShareFetchableTopicResponse(Response):
    topic_id: UUID | None
    partitions: tuple[ShareFetchPartitionData, ...]


class NodeEndpoint(Response):
    node_id: int
    host: str
    port: int
    rack: str | None


class ShareFetchResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout: timedelta | int
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]


class ShareAcknowledgeLeaderIdAndEpoch(Response):
    leader_id: int
    leader_epoch: int


class ShareAcknowledgePartitionData(Response):
    partition_index: int
    error_code: int
    error_message: str | None
    current_leader: ShareAcknowledgeLeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Response):
    topic_id: UUID | None
    partitions: tuple[ShareAcknowledgePartitionData, ...]


class ShareAcknowledgeNodeEndpoint(Response):
    node_id: int
    host: str
    port: int
    rack: str | None


class ShareAcknowledgeResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout: timedelta | int
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[ShareAcknowledgeNodeEndpoint, ...]


class InitializeShareGroupStatePartitionResult(Response):
    partition: int
    error_code: int
    error_message: str | None


class InitializeStateResult(Response):
    topic_id: UUID | None
    partitions: tuple[InitializeShareGroupStatePartitionResult, ...]


class InitializeShareGroupStateResponse(Response):
    results: tuple[InitializeStateResult, ...]


class StateBatch(Response):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ReadShareGroupStatePartitionResult(Response):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]


class ReadStateResult(Response):
    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStatePartitionResult, ...]


class ReadShareGroupStateResponse(Response):
    results: tuple[ReadStateResult, ...]


class WriteShareGroupStatePartitionResult(Response):
    partition: int
    error_code: int
    error_message: str | None


class WriteStateResult(Response):
    topic_id: UUID | None
    partitions: tuple[WriteShareGroupStatePartitionResult, ...]


class WriteShareGroupStateResponse(Response):
    results: tuple[WriteStateResult, ...]


class DeleteShareGroupStatePartitionResult(Response):
    partition: int
    error_code: int
    error_message: str | None


class DeleteStateResult(Response):
    topic_id: UUID | None
    partitions: tuple[DeleteShareGroupStatePartitionResult, ...]


class DeleteShareGroupStateResponse(Response):
    results: tuple[DeleteStateResult, ...]


class ReadShareGroupStateSummaryPartitionResult(Response):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ReadStateSummaryResult(Response):
    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateSummaryPartitionResult, ...]


class ReadShareGroupStateSummaryResponse(Response):
    results: tuple[ReadStateSummaryResult, ...]


class DescribeShareGroupOffsetsResponsePartition(Response):
    partition_index: int
    start_offset: int
    leader_epoch: int
    lag: int
    error_code: int
    error_message: str | None


class DescribeShareGroupOffsetsResponseTopic(Response):
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


class DescribeShareGroupOffsetsResponseGroup(Response):
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: int
    error_message: str | None


class DescribeShareGroupOffsetsResponse(Response):
    throttle_time: timedelta | int
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]


class AlterShareGroupOffsetsResponsePartition(Response):
    partition_index: int
    error_code: int
    error_message: str | None


class AlterShareGroupOffsetsResponseTopic(Response):
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


class AlterShareGroupOffsetsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]


class DeleteShareGroupOffsetsResponseTopic(Response):
    topic_name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None


class DeleteShareGroupOffsetsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]
