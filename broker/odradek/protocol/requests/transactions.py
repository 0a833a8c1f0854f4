"""Requests of transactions, as handlers read them.

Written by `odradek.handlers.request_types`; edits are lost.
"""

from __future__ import annotations

from typing import ClassVar, Final

from odradek.protocol.api import ApiKey


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
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest,
    ApiKey.LIST_TRANSACTIONS: ListTransactionsRequest,
}
