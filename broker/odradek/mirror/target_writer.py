"""Writes batches and the positions behind them to the target: both in one transaction, or at least once.

Exactly once: Produce, TxnOffsetCommit with the worker's member id and generation, EndTxn. The group's coordinator
refuses the offsets of a worker that is no longer a member, and a transaction without offsets is never committed. So a
worker that stood still cannot commit what another one copies now.

At least once: an idempotent producer, and OffsetCommit once all is acknowledged. A worker that dies between both has
its last batches copied again.

After any error the writer is of no more use: the worker makes another one, which reads the positions again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.client.client import Client
from odradek.client.consumer.membership import Membership
from odradek.client.group_metadata import GroupMetadata
from odradek.client.last_requests import last_requests
from odradek.client.producer.batches import NO_IDENTITY
from odradek.client.producer.requests import initialize_producer_id
from odradek.client.producer.transaction_requests import TransactionRequests
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import IllegalGeneration, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.mirror.passed import PassedBatch
from odradek.mirror.produce_queue import OutgoingBatch, ProduceQueue

logger = logging.getLogger(__name__)

_FEATURE: Final = "transaction.version"
_IMPLICIT_LEVEL: Final = 2

OnFailure = Callable[[TopicPartition, OdradekError], None]


class TargetWriter:
    """The writer of one generation of a group. `write` any number of times, then `commit`; and so on."""

    def __init__(
        self,
        client: Client,
        *,
        membership: Membership,
        group_id: str,
        transactional_id: str | None,
        timeout_ms: int,
        on_failure: OnFailure,
    ) -> None:
        self._client = client
        self._membership = membership
        self._group = GroupMetadata(group_id, membership.generation, membership.member_id, None)
        self._id = transactional_id
        self._requests = (
            None
            if transactional_id is None
            else TransactionRequests(client, transactional_id, timeout_ms=timeout_ms)
        )
        self._queue = ProduceQueue(
            client, transactional_id=transactional_id, timeout_ms=timeout_ms, on_failure=on_failure
        )
        self._identity = NO_IDENTITY
        self._is_implicit = False
        self._is_open = False
        self._added: set[TopicPartition] = set()
        self.bytes_open = 0

    async def start(self) -> None:
        """Take the transactional id: what its last holder has open is ended, and it is refused from then on."""
        if self._requests is None:
            self._identity = await self._client.with_retries(lambda: initialize_producer_id(self._client))
        else:
            self._identity = await self._requests.initialize()
            self._is_implicit = self._client.finalized_level(_FEATURE) >= _IMPLICIT_LEVEL
        self._queue.begin(self._identity, is_implicit=self._is_implicit)

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._is_open

    async def write(self, batches: Sequence[OutgoingBatch]) -> None:
        """Send batches. Waits while many are not acknowledged. Raises what an earlier one failed with."""
        if not batches:
            return
        await self._queue.room()
        self._is_open = True
        if self._requests is not None and not self._is_implicit:
            new = {batch.topic_partition for batch in batches} - self._added
            if new:
                await self._requests.add_partitions(self._identity, sorted(new))
                self._added |= new
        self.bytes_open += sum(len(batch.ready.data) for batch in batches)
        self._queue.add(batches)

    async def commit(self, positions: Mapping[TopicPartition, CommittedOffset]) -> list[PassedBatch]:
        """Wait for all acknowledgements, commit these positions with them, and return what is committed now.

        Raises why not. Nothing of it is committed then, or the answer is lost: only the positions show which.
        """
        done = await self._queue.drain()
        if self._requests is None:
            await self._membership.commit(positions)
        else:
            self._is_open = True
            await self._commit_transaction(self._requests, positions)
        self._is_open = False
        self.bytes_open = 0
        return [_build_passed(batch) for batch in done]

    async def _commit_transaction(
        self, requests: TransactionRequests, positions: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        if self._membership.generation != self._group.generation:
            raise IllegalGeneration("this worker is no member of its generation any more")
        if not self._is_implicit:
            await requests.add_offsets(self._identity, self._group.group_id)
        await requests.commit_offsets(self._identity, positions, self._group, is_implicit=self._is_implicit)
        self._identity = await requests.end(self._identity, is_commit=True, is_implicit=self._is_implicit)
        self._added.clear()
        self._queue.begin(self._identity, is_implicit=self._is_implicit)

    async def close(self) -> None:
        """Stop what is under way, and abort what is open. If that fails, the next writer's start does it."""
        await self._queue.close()
        if self._requests is not None and self._is_open:
            self._is_open = False
            async with last_requests(self._note_open_transaction):
                await self._requests.end(self._identity, is_commit=False, is_implicit=self._is_implicit)

    def _note_open_transaction(self, why: str) -> None:
        logger.info("transactional id %s: the next worker ends the transaction: %s", self._id, why)


def _build_passed(batch: OutgoingBatch) -> PassedBatch:
    ready = batch.ready
    return PassedBatch(
        topic_partition_source=batch.source,
        topic_partition_target=batch.topic_partition,
        source_first_offset=ready.source_first_offset,
        source_end_offset=ready.source_end_offset,
        target_first_offset=batch.base_offset,
        record_count=ready.record_count,
        is_contiguous=ready.is_contiguous,
        max_timestamp_ms=ready.max_timestamp_ms,
        size_bytes=len(ready.data),
        opened_because=ready.opened_because,
    )
