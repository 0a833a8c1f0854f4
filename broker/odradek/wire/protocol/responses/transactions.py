"""Responses about transactions, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class AddPartitionsToTxnPartitionResult(Response):
    partition_index: int
    partition_error_code: int


class AddPartitionsToTxnTopicResult(Response):
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


class AddPartitionsToTxnResult(Response):
    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


class AddPartitionsToTxnResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]


class AddOffsetsToTxnResponse(Response):
    throttle_time: timedelta | int
    error_code: int


class EndTxnResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    producer_id: int
    producer_epoch: int


class WritableTxnMarkerPartitionResult(Response):
    partition_index: int
    error_code: int


class WritableTxnMarkerTopicResult(Response):
    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


class WritableTxnMarkerResult(Response):
    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


class WriteTxnMarkersResponse(Response):
    markers: tuple[WritableTxnMarkerResult, ...]


class TxnOffsetCommitResponsePartition(Response):
    partition_index: int
    error_code: int


class TxnOffsetCommitResponseTopic(Response):
    topic_id: UUID | None
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]
    name: str


class TxnOffsetCommitResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


class TopicData(Response):
    topic: str
    partitions: tuple[int, ...]


class TransactionState(Response):
    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout: timedelta | int
    transaction_start_time: datetime | int | None
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicData, ...]


class DescribeTransactionsResponse(Response):
    throttle_time: timedelta | int
    transaction_states: tuple[TransactionState, ...]


class ListTransactionsTransactionState(Response):
    transactional_id: str
    producer_id: int
    transaction_state: str


class ListTransactionsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[ListTransactionsTransactionState, ...]
