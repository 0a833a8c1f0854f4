"""Transactions: list and describe transactional ids, find transactions that hang, and abort one (KIP-664).

A transaction hangs when it is open in a partition and its coordinator does not have it. Readers of committed records
wait for it for ever. An abort writes the marker to the partition's leader, past every coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.client.admin.logs import LogAdmin
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.client.partition_rows import list_answer_rows
from odradek.client.results import ProducerOnPartition
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition, flat
from odradek.foundation.transaction_errors import TransactionalIdNotFound
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.messages import milliseconds
from odradek.wire.protocol.reading import EPOCH

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.transactions import (
        ListTransactionsResponse,
        ListTransactionsTransactionState,
    )

LIST_VERSIONS = (0, 2)
DESCRIBE_VERSIONS = (0, 0)
MARKER_VERSIONS = (1, 1)
NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id by name. `coordinator` is the broker that serves it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id. `start_ms` is -1 where no transaction was begun; `partitions` are those of an open one."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, as the partition's leader has it."""

    partition: TopicPartition
    producer: ProducerOnPartition


@checking_arguments()
class TransactionAdmin:
    """The admin calls for transactions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, by id. Raises UnsupportedByBroker for a filter that is too new."""
        cluster = await self._client.refresh(())

        async def of_broker(broker_id: int) -> Sequence[ListTransactionsTransactionState]:
            connection = await self._client.broker(broker_id)
            response: ListTransactionsResponse = await connection.request(
                ApiKey.LIST_TRANSACTIONS,
                versions=(2 if pattern else 1 if duration_ms >= 0 else LIST_VERSIONS[0], LIST_VERSIONS[1]),
                state_filters=list(states),
                producer_id_filters=list(producer_ids),
                duration_filter=duration_ms,
                transactional_id_pattern=pattern,
            )
            raise_for(response.error_code)
            if response.unknown_state_filters:
                raise InvalidRequest(
                    f"broker {broker_id} does not know the state {response.unknown_state_filters[0]}"
                )
            return response.transaction_states

        found: list[TransactionListing] = []
        for broker_id in sorted(cluster.brokers):
            rows = await self._client.with_retries(lambda: of_broker(broker_id))  # noqa: B023 (awaited here)
            found += [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, broker_id)
                for row in rows
            ]
        return sorted(found, key=lambda one: one.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """One transactional id. Raises TransactionalIdNotFound."""

        async def attempt() -> TransactionDescription:
            connection = await self._client.transaction_coordinator(transactional_id)
            response = await connection.request(
                ApiKey.DESCRIBE_TRANSACTIONS, versions=DESCRIBE_VERSIONS, transactional_ids=[transactional_id]
            )
            (row,) = response.transaction_states
            raise_for(
                row.error_code,
                about=f"transactional id {transactional_id!r}",
                transactional_id=transactional_id,
            )
            start = row.transaction_start_time
            return TransactionDescription(
                transactional_id=transactional_id,
                coordinator=connection.broker_id(self._client.cluster),
                producer_id=row.producer_id,
                producer_epoch=row.producer_epoch,
                state=row.transaction_state,
                timeout_ms=milliseconds(row.transaction_timeout),
                start_ms=-1 if start is None else round((start - EPOCH).total_seconds() * 1000),
                partitions=flat((topic.topic, topic.partitions) for topic in row.topics),
            )

        return await self._client.with_retries(attempt, transactional_id=transactional_id)

    async def open_in(self, partitions: Iterable[TopicPartition]) -> Sequence[OpenTransaction]:
        """The transactions that are open in these partitions, as their leaders have them."""
        found = await LogAdmin(self._client).describe_producers_of(partitions)
        return [
            OpenTransaction(partition, producer)
            for partition, producers in found.items()
            for producer in producers
            if producer.transaction_start_offset != NO_TRANSACTION
        ]

    async def hanging(
        self, partitions: Iterable[TopicPartition], *, now_ms: int, open_longer_ms: int
    ) -> Sequence[OpenTransaction]:
        """Those without a record for `open_longer_ms` that their coordinator does not have."""
        candidates = [
            one
            for one in await self.open_in(partitions)
            if now_ms - one.producer.last_timestamp_ms >= open_longer_ms
        ]
        if not candidates:
            return []
        ids = sorted({one.producer.producer_id for one in candidates})
        listed = await self.list(producer_ids=ids)
        known = {one.producer_id: await self._partitions_of(one.transactional_id) for one in listed}
        return [one for one in candidates if one.partition not in known.get(one.producer.producer_id, ())]

    async def _partitions_of(self, transactional_id: str) -> frozenset[TopicPartition]:
        try:
            return frozenset((await self.describe(transactional_id)).partitions)
        except TransactionalIdNotFound:
            return frozenset()  # it has expired since it was listed

    async def find(self, partition: TopicPartition, start_offset: int) -> OpenTransaction | None:
        """The transaction that is open in a partition from this offset on."""
        for one in await self.open_in([partition]):
            if one.producer.transaction_start_offset == start_offset:
                return one
        return None

    async def abort(self, transaction: OpenTransaction) -> None:
        """Write an abort marker to the partition's leader. Raises the leader's error."""
        partition, producer = transaction.partition, transaction.producer

        async def attempt() -> None:
            (leader,) = await self._client.leaders([partition])
            connection = await self._client.broker(leader)
            response = await connection.request(
                ApiKey.WRITE_TXN_MARKERS,
                versions=MARKER_VERSIONS,
                markers=[
                    {
                        "producer_id": producer.producer_id,
                        "producer_epoch": producer.producer_epoch,
                        "transaction_result": False,
                        "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
                        # A producer that no marker has reached has no epoch of a coordinator.
                        "coordinator_epoch": max(0, producer.coordinator_epoch),
                    }
                ],
            )
            for marker in response.markers:
                for _, row in list_answer_rows(marker.topics):
                    raise_for(row.error_code, about=f"the marker for {partition}")

        await self._client.with_retries(attempt)
