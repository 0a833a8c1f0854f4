"""Responses about records and their offsets, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class BatchIndexAndErrorMessage(Response):
    batch_index: int
    batch_index_error_message: str | None


class ProduceLeaderIdAndEpoch(Response):
    leader_id: int
    leader_epoch: int


class PartitionProduceResponse(Response):
    index: int
    error_code: int
    base_offset: int
    log_append_time: datetime | int | None
    log_start_offset: int
    record_errors: tuple[BatchIndexAndErrorMessage, ...]
    error_message: str | None
    current_leader: ProduceLeaderIdAndEpoch


class TopicProduceResponse(Response):
    topic_id: UUID | None
    partition_responses: tuple[PartitionProduceResponse, ...]
    name: str


class ProduceNodeEndpoint(Response):
    node_id: int
    host: str
    port: int
    rack: str | None


class ProduceResponse(Response):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: timedelta | int
    node_endpoints: tuple[ProduceNodeEndpoint, ...]


class EpochEndOffset(Response):
    epoch: int
    end_offset: int


class FetchLeaderIdAndEpoch(Response):
    leader_id: int
    leader_epoch: int


class SnapshotId(Response):
    end_offset: int
    epoch: int


class AbortedTransaction(Response):
    producer_id: int
    first_offset: int


class FetchPartitionData(Response):
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: EpochEndOffset
    current_leader: FetchLeaderIdAndEpoch
    snapshot_id: SnapshotId
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: int
    records: bytes | None


class FetchableTopicResponse(Response):
    topic_id: UUID | None
    partitions: tuple[FetchPartitionData, ...]
    topic: str


class FetchNodeEndpoint(Response):
    node_id: int
    host: str
    port: int
    rack: str | None


class FetchResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    session_id: int
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[FetchNodeEndpoint, ...]


class ListOffsetsPartitionResponse(Response):
    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int


class ListOffsetsTopicResponse(Response):
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


class ListOffsetsResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[ListOffsetsTopicResponse, ...]


class DeleteRecordsPartitionResult(Response):
    partition_index: int
    low_watermark: int
    error_code: int


class DeleteRecordsTopicResult(Response):
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


class DeleteRecordsResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[DeleteRecordsTopicResult, ...]


class InitProducerIdResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int


class OffsetForLeaderEpochEndOffset(Response):
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int


class OffsetForLeaderTopicResult(Response):
    topic: str
    partitions: tuple[OffsetForLeaderEpochEndOffset, ...]


class OffsetForLeaderEpochResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[OffsetForLeaderTopicResult, ...]


class ProducerState(Response):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionResponse(Response):
    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: tuple[ProducerState, ...]


class TopicResponse(Response):
    name: str
    partitions: tuple[PartitionResponse, ...]


class DescribeProducersResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[TopicResponse, ...]
