"""The sending half of a producer: sends due batches to their leaders, and retries those that are not acknowledged.

    PartitionQueue (batches grow) → _run (what is due, by leader) → _send (one request) → acknowledged or again

Each batch of an idempotent producer has a sequence number, so the broker recognises a retry of one that it has written.
Retries are bounded by the delivery timeout, memory by the buffer. A batch that is too large for its topic is split and
sent again, as Java's producer does. Within a transaction (`transactions`) a batch waits until its
partition belongs to it, and all are given up once the transaction has failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from odradek.client.client import Client
from odradek.client.errors import RETRIABLE, BufferFull, ClientClosed, ClientTimeout, TransactionAborted
from odradek.client.metadata import NO_LEADER
from odradek.client.producer.batches import NO_IDENTITY, PartitionQueue, PendingBatch, ProducerIdAndEpoch
from odradek.client.producer.requests import BatchOutcome, initialize_producer_id, produce, produce_versions
from odradek.client.producer.transactions import Transactions
from odradek.foundation.client_limits import CLIENT_RETRY_PAUSE_MS_MAX, CLIENT_RETRY_PAUSE_MS_MIN
from odradek.foundation.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OdradekError,
    RecordTooLarge,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    DuplicateSequence,
    OutOfOrderSequence,
    UnknownProducerId,
)
from odradek.foundation.words import count
from odradek.wire.records.batch import advance_sequence
from odradek.wire.records.compression import Compression

logger = logging.getLogger(__name__)

_EPOCH_MAX = 32_766  # one less than the largest int16, as Kafka's producers

OnFailure = Callable[[TopicPartition, int, OdradekError], None]
OnRetry = Callable[[TopicPartition, float, OdradekError], None]


class TakenBack(LeaderNotAvailable):
    """The batch was not sent to its partition, whose leader cannot be reached: another may take its records."""


class SenderSettings(NamedTuple):
    """The settings of sending batches; sizes in bytes, times in seconds."""

    acks: int
    is_idempotent: bool
    compression: Compression
    linger_seconds: float
    batch_bytes_max: int
    request_bytes_max: int
    buffer_bytes_max: int
    delivery_timeout_seconds: float
    room_wait_seconds_max: float
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    identity: ProducerIdAndEpoch = NO_IDENTITY


class Sender:
    """Sends the batches of the queues until it is closed. `queue` returns a queue, `added` reports added records."""

    def __init__(
        self,
        client: Client,
        settings: SenderSettings,
        *,
        on_failure: OnFailure | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_failure = on_failure
        self._on_retry = on_retry
        self._renewed = NO_IDENTITY
        self._wake = asyncio.Event()
        self.transactions = (
            None
            if settings.transactional_id is None
            else Transactions(
                client,
                settings.transactional_id,
                timeout_ms=settings.transaction_timeout_ms,
                on_change=self._wake.set,
                identity=settings.identity,
            )
        )
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._finished = asyncio.Event()
        self._unfinished = 0
        self._flushing = 0
        self._is_refresh_failing = False
        self._tasks = TaskOwner("producer")
        self.on_written: Callable[[PendingBatch, BatchOutcome], None] | None = None
        self.written_count = 0
        self.first_lost_serial: int | None = None
        """The first record, by its serial number, that could not be written."""
        self.failure: OdradekError | None = None
        """The first since the last flush."""

    async def start(self) -> None:
        """Get a producer id if needed and begin to send."""
        if self.transactions is not None:
            await self.transactions.start()
        elif self._settings.is_idempotent:
            self._renewed = await self._client.with_retries(lambda: initialize_producer_id(self._client))
        self._tasks.start(self._run(), name="sender")

    async def close(self) -> None:
        """Stop. Records that are not acknowledged fail with ClientClosed."""
        await self._tasks.close()
        if self.transactions is not None:
            await self.transactions.close()
        for queue in self._queues.values():
            for batch in (*([queue.in_flight] if queue.in_flight else []), *queue.batches):
                if not batch.done.done():
                    batch.done.set_exception(ClientClosed("the producer was closed before it was written"))

    async def flush(self, *, is_stopping_at_failure: bool = False) -> None:
        """Wait until all batches are acknowledged or failed; raise the first failure since the last flush."""
        await self.settle(is_stopping_at_failure=is_stopping_at_failure)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    async def settle(self, *, is_stopping_at_failure: bool = False) -> None:
        """Wait as `flush` does, and leave `failure` as it is."""
        self._flushing += 1
        self._wake.set()
        try:
            while self._unfinished and not (is_stopping_at_failure and self.failure):
                self._finished.clear()
                await self._finished.wait()
        finally:
            self._flushing -= 1

    # --- queues ---------------------------------------------------------------------------------------------------

    def queue(self, target: TopicPartition) -> PartitionQueue:
        found = self._queues.get(target)
        if found is None:
            found = self._queues[target] = PartitionQueue(
                target, batch_bytes_max=self._settings.batch_bytes_max
            )
        return found

    def note_added(self, size_bytes: int, *, is_new: bool = False, is_full: bool = False) -> None:
        """Count added bytes; wake the sender for a new or full batch."""
        self._buffered_bytes += size_bytes
        if is_new:
            self._unfinished += 1
        if is_new or is_full:
            self._wake.set()

    def has_room(self, size_bytes: int) -> bool:
        """Whether so many bytes fit in the buffer. Any number fits in an empty one."""
        return (
            not self._buffered_bytes or self._buffered_bytes + size_bytes <= self._settings.buffer_bytes_max
        )

    async def wait_for_room(self, size_bytes: int) -> None:
        """Wait until so many bytes fit in the buffer. Raises BufferFull."""
        try:
            async with asyncio.timeout(self._settings.room_wait_seconds_max):
                while not self.has_room(size_bytes):
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferFull(
                f"the producer's buffer of {self._settings.buffer_bytes_max} bytes stayed full for "
                f"{self._settings.room_wait_seconds_max:.0f} s: the broker is slower than the sender"
            ) from None

    def first_unwritten_serial(self) -> int | None:
        """The first record, by its serial number, that is not acknowledged; None when all are."""
        lost = [] if self.first_lost_serial is None else [self.first_lost_serial]
        waiting = self.first_waiting_serial()
        return min(lost if waiting is None else [*lost, waiting], default=None)

    def first_waiting_serial(self) -> int | None:
        """The first record that is neither acknowledged nor lost; None without any."""
        return min((one.oldest.serials[0] for one in self._queues.values() if one.oldest), default=None)

    @property
    def _identity(self) -> ProducerIdAndEpoch:
        return self._renewed if self.transactions is None else self.transactions.identity

    def take_back(self, target: TopicPartition) -> None:
        """End the waiting batches of a partition with TakenBack, if none of them can have been written."""
        queue = self._queues.get(target)
        if queue is None or queue.in_flight is not None or any(one.may_be_written for one in queue.batches):
            return
        taken = list(queue.batches)
        queue.batches.clear()
        if taken and taken[0].identity == queue.sequence_identity != NO_IDENTITY:
            queue.next_sequence = taken[0].sequence  # the broker has not seen it
        for batch in taken:
            batch.done.set_exception(TakenBack(f"partition {target} is not available"))
            self._finish(batch)

    # --- sending --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            wait_seconds = await self._dispatch(loop.time())
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _dispatch(self, now: float) -> float | None:
        """Send all due batches. Returns the seconds until the next one is due."""
        if self.transactions is not None and self.transactions.failure is not None:
            self._give_up(self.transactions.failure)
            return None
        by_leader: dict[int, list[PartitionQueue]] = {}
        next_due: float | None = None
        is_refresh_due = False
        for queue in self._queues.values():
            due = queue.due_at(linger_seconds=0.0 if self._flushing else self._settings.linger_seconds)
            if due is None:
                continue
            if due > now:
                next_due = due if next_due is None else min(next_due, due)
                continue
            leader = self._client.cluster.leader(queue.topic_partition)
            if leader == NO_LEADER:
                self._again(queue, queue.batches.popleft(), LeaderNotAvailable("no leader is known"))
                is_refresh_due = True
                continue
            if self.transactions is not None and not self.transactions.takes(queue.topic_partition):
                continue
            by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            self._send_to(leader, queues)
        if is_refresh_due:
            await self._refresh()
            now = asyncio.get_running_loop().time()
            retries = (queue.batches[0].retry_at for queue in self._queues.values() if queue.batches)
            next_due = min(retries, default=next_due)
        return None if next_due is None else max(next_due - now, 0.0)

    async def _refresh(self) -> None:
        try:
            await self._client.refresh(sorted({key.topic for key in self._queues}))
        except OdradekError as failure:
            # Once for each outage, since every failed batch tries this.
            level = logging.DEBUG if self._is_refresh_failing else logging.WARNING
            logger.log(level, "the metadata could not be refreshed, trying again: %s", failure)
            self._is_refresh_failing = True
        else:
            self._is_refresh_failing = False

    def _send_to(self, leader: int, queues: list[PartitionQueue]) -> None:
        batches: list[PendingBatch] = []
        size_bytes = 0
        for queue in queues:
            first = queue.batches[0]
            if batches and size_bytes + first.payload_bytes > self._settings.request_bytes_max:
                self._tasks.start(self._send(leader, batches), name=f"request to {leader}")
                batches, size_bytes = [], 0
            queue.in_flight = queue.batches.popleft()
            self._seal(queue, first)
            batches.append(first)
            size_bytes += first.payload_bytes
        self._tasks.start(self._send(leader, batches), name=f"request to {leader}")

    def _seal(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        if not self._settings.is_idempotent:
            if batch.data is None:
                batch.seal(compression=self._settings.compression, identity=NO_IDENTITY, sequence=-1)
            return
        if batch.identity != NO_IDENTITY:
            return  # a retry of the same batch, with the same sequence number
        if queue.sequence_identity != self._identity:
            queue.sequence_identity = self._identity
            queue.next_sequence = 0
        batch.seal(
            compression=self._settings.compression,
            identity=self._identity,
            sequence=queue.next_sequence,
            is_transactional=self.transactions is not None,
        )
        queue.next_sequence = advance_sequence(queue.next_sequence, len(batch.builder))

    async def _send(self, leader: int, batches: list[PendingBatch]) -> None:
        unwritten = [batch for batch in batches if not batch.may_be_written]
        for batch in batches:
            batch.attempts += 1
        try:
            outcomes = await self._produce(leader, batches)
        except OdradekError as failure:
            outcomes = {batch.topic_partition: failure for batch in batches}
        for batch in unwritten:
            if isinstance(outcomes.get(batch.topic_partition), NotLeaderOrFollower):
                batch.may_be_written = False
        is_stale = False
        for batch in batches:
            queue = self._queues[batch.topic_partition]
            outcome = outcomes.get(batch.topic_partition) or InvalidRequest(
                "the broker left it out of its answer"
            )
            is_renewed = isinstance(outcome, OdradekError) and self._may_renew(batch, outcome)
            if is_renewed:
                # It counts as in flight until then: no later batch may be sent before it.
                await self._renew_identity(batch.identity)
                batch.identity = NO_IDENTITY
            queue.in_flight = None
            if not isinstance(outcome, OdradekError):
                self._succeed(batch, outcome)
            elif isinstance(outcome, RecordTooLarge) and len(batch.builder) > 1:
                self._split(queue, batch)
            elif isinstance(outcome, DuplicateSequence):
                self._succeed(batch, BatchOutcome(-1, -1))
            elif is_renewed:
                self._again(queue, batch, outcome)
            elif isinstance(outcome, (*RETRIABLE, ClientTimeout)):
                is_stale |= not isinstance(outcome, ConcurrentTransactions)
                self._again(queue, batch, outcome)
            else:
                self._lose(batch, _too_large(batch) if isinstance(outcome, RecordTooLarge) else outcome)
                await self._after_loss(batch)
        if is_stale:
            await self._refresh()
        self._wake.set()

    async def _produce(
        self, leader: int, batches: list[PendingBatch]
    ) -> dict[TopicPartition, BatchOutcome | OdradekError]:
        transactions = self.transactions
        await self._client.broker(leader)  # before it is open, nothing is sent
        for batch in batches:
            batch.may_be_written = True
        return await produce(
            self._client,
            leader,
            batches,
            acks=self._settings.acks,
            transactional_id=None if transactions is None else transactions.transactional_id,
            versions=produce_versions(
                self._settings.compression,
                is_implicit=None if transactions is None else transactions.is_implicit,
            ),
        )

    def _give_up(self, cause: OdradekError) -> None:
        """Fail all that waits: its transaction will be aborted."""
        reason = TransactionAborted(f"its transaction is aborted: {cause}")
        for queue in self._queues.values():
            while queue.batches:
                batch = queue.batches.popleft()
                self._lose(batch, reason)
                self._finish(batch)

    def _may_renew(self, batch: PendingBatch, outcome: OdradekError) -> bool:
        """Whether the broker lost this producer's state without writing the batch: then a new id is safe."""
        is_lost = isinstance(outcome, OutOfOrderSequence) and batch.attempts == 1
        return self.transactions is None and (is_lost or isinstance(outcome, UnknownProducerId))

    def _again(self, queue: PartitionQueue, batch: PendingBatch, failure: OdradekError) -> None:
        """Put the batch back at the front, unless its delivery timeout is over."""
        now = asyncio.get_running_loop().time()
        pause_ms = min(CLIENT_RETRY_PAUSE_MS_MIN * 2 ** min(batch.attempts, 10), CLIENT_RETRY_PAUSE_MS_MAX)
        batch.attempts = max(batch.attempts, 1)
        batch.retry_at = now + pause_ms / 1000
        if batch.retry_at > batch.created_at + self._settings.delivery_timeout_seconds:
            late = ClientTimeout(
                f"{count(len(batch.builder), 'record')} for {batch.topic_partition} could not "
                f"be written in {self._settings.delivery_timeout_seconds:g} s; the last error: {failure}"
            )
            self._lose(batch, late)
            self._tasks.start(self._after_loss(batch), name="fail a batch")
            return
        logger.debug("batch for %s is retried in %d ms: %s", batch.topic_partition, pause_ms, failure)
        queue.batches.appendleft(batch)
        if self._on_retry is not None:
            self._on_retry(batch.topic_partition, now - batch.created_at, failure)

    def _split(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        """Send the batch's records as two. The broker has written none, so their numbers are unused."""
        if batch.identity == queue.sequence_identity:
            queue.next_sequence = batch.sequence
        queue.batch_bytes_max = min(queue.batch_bytes_max, max(batch.payload_bytes // 2, 1))
        logger.debug("batch of %d bytes for %s is split", batch.payload_bytes, batch.topic_partition)
        halves = batch.split()
        queue.batches.extendleft(reversed(halves))
        self._unfinished += len(halves)
        self._buffered_bytes += sum(half.payload_bytes for half in halves)
        self._finish(batch)

    def _succeed(self, batch: PendingBatch, outcome: BatchOutcome) -> None:
        self.written_count += len(batch.builder)
        if not batch.done.done():
            batch.done.set_result(outcome)
        if self.on_written is not None:
            self.on_written(batch, outcome)
        self._finish(batch)

    def _lose(self, batch: PendingBatch, failure: OdradekError) -> None:
        if self.failure is None:
            self.failure = failure
        if self.transactions is not None:
            self.transactions.note_lost_batch(failure, was_sent=batch.identity != NO_IDENTITY)
        serial = batch.serials[0]
        self.first_lost_serial = (
            serial if self.first_lost_serial is None else min(serial, self.first_lost_serial)
        )
        self._finished.set()
        if not batch.done.done():
            batch.done.set_exception(failure)
        if self._on_failure is not None:
            self._on_failure(batch.topic_partition, len(batch.builder), failure)

    async def _after_loss(self, batch: PendingBatch) -> None:
        # Its sequence numbers are used, and the broker may not have seen them: another epoch begins at 0.
        if self.transactions is None and self._settings.is_idempotent and batch.identity == self._identity:
            await self._renew_identity(batch.identity)
        self._finish(batch)

    def _finish(self, batch: PendingBatch) -> None:
        self._buffered_bytes -= batch.payload_bytes
        self._unfinished -= 1
        self._room.set()
        self._finished.set()

    async def _renew_identity(self, old: ProducerIdAndEpoch) -> None:
        """Take another epoch, at once (KIP-360). The broker refuses late batches of the old epoch, and nothing is sent
        in between. Another id is only needed after the last epoch.
        """
        if self._identity != old:
            return
        if old.epoch < _EPOCH_MAX:
            self._renewed = ProducerIdAndEpoch(old.id, old.epoch + 1)
            return
        try:
            self._renewed = await self._client.with_retries(lambda: initialize_producer_id(self._client))
        except OdradekError as failure:
            logger.warning("no new producer id was allocated, the old one stays: %s", failure)


def _too_large(batch: PendingBatch) -> RecordTooLarge:
    """The error for a record that is too large alone. The broker's is about a batch, which users do not see."""
    topic, size_bytes = batch.topic_partition.topic, len(batch.data or b"")
    return RecordTooLarge(
        f"a record of {batch.payload_bytes} bytes is too large for topic {topic!r}: in its batch it takes "
        f"{size_bytes}, more than max.message.bytes allows. Send a smaller one, or allow it with "
        f"`odradek topics alter {topic} --config max.message.bytes={size_bytes}`"
    )
