"""Requests of transactions, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from typing import ClassVar, Final
from uuid import UUID

from odradek.wire.protocol.api import ApiKey


class AddPartitionsToTxnTopic:
    __slots__ = ()
    name: str
    partitions: tuple[int, ...]


class AddPartitionsToTxnTransaction:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": AddPartitionsToTxnTopic}
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]


class AddPartitionsToTxnRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "transactions": AddPartitionsToTxnTransaction,
        "v3_and_below_topics": AddPartitionsToTxnTopic,
    }
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddOffsetsToTxnRequest:
    __slots__ = ()
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class EndTxnRequest:
    __slots__ = ()
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class WritableTxnMarkerTopic:
    __slots__ = ()
    name: str
    partition_indexes: tuple[int, ...]


class WritableTxnMarker:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": WritableTxnMarkerTopic}
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0


class WriteTxnMarkersRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"markers": WritableTxnMarker}
    markers: tuple[WritableTxnMarker, ...]


class TxnOffsetCommitRequestPartition:
    __slots__ = ()
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


class TxnOffsetCommitRequestTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": TxnOffsetCommitRequestPartition}
    topic_id: UUID | None = None
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]
    name: str = ""


class TxnOffsetCommitRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": TxnOffsetCommitRequestTopic}
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


class DescribeTransactionsRequest:
    __slots__ = ()
    transactional_ids: tuple[str, ...]


class ListTransactionsRequest:
    __slots__ = ()
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


TYPES: Final[dict[int, type]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest,
    ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest,
    ApiKey.END_TXN: EndTxnRequest,
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest,
    ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest,
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest,
    ApiKey.LIST_TRANSACTIONS: ListTransactionsRequest,
}
