"""The producer: records in, acknowledged batches out, in the background.

    send → PartitionQueue (batches grow) → _run (what is due, by leader) → _send (one request) → acknowledged or again

Idempotent unless asked otherwise: each batch carries a sequence number, so a retry of one that had been written is
recognised by the broker. Retries are bounded by the delivery timeout, memory by the buffer: `send` waits when it is
full. Left out: transactions, and splitting a batch that the topic finds too large (choose a smaller batch size).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from odradek.client.arguments import Buffer, GivenHeaders, client_of, compression_named, record_parts
from odradek.client.client import Client
from odradek.client.errors import RETRIABLE, BufferFull, ClientClosed, ClientTimeout
from odradek.client.metadata import NO_LEADER
from odradek.client.producer.batches import (
    NO_IDENTITY,
    Delivery,
    PartitionQueue,
    PendingBatch,
    ProducerIdentity,
    RecordMetadata,
    record_bytes,
)
from odradek.client.producer.partitioners import StickyPartitioner, partition_for_key
from odradek.client.producer.requests import (
    ACKS_ALL,
    BatchOutcome,
    initialize_producer_id,
    produce,
)
from odradek.foundation.errors import (
    DuplicateSequence,
    InvalidRequest,
    LeaderNotAvailable,
    OdradekError,
    OutOfOrderSequence,
    RecordTooLarge,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import CLIENT_RETRY_PAUSE_MS_MAX, CLIENT_RETRY_PAUSE_MS_MIN
from odradek.foundation.tasks import TaskOwner
from odradek.records.batch import advance_sequence
from odradek.records.compression import Compression

logger = logging.getLogger(__name__)

_EPOCH_MAX = 32_766  # one less than the largest int16, as Kafka's producers


class Producer:
    """`async with Producer(client) as producer: delivery = await producer.send("orders", b"value", key=b"k")`.

    `send` gives back a Delivery; `await delivery` waits for the broker. `flush` waits for all and raises the first
    failure since the flush before, so that records sent without awaiting their delivery do not get lost unseen.
    """

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        is_idempotent: bool = True,
        compression: Compression | str = Compression.NONE,
        linger_ms: float = 5.0,
        batch_bytes_max: int = 64 * 1024,
        request_bytes_max: int = 1024 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        delivery_timeout_ms: int = 120_000,
        send_wait_ms_max: int = 60_000,
        on_failure: Callable[[TopicPartition, int, OdradekError], None] | None = None,
    ) -> None:
        if acks not in (0, 1, ACKS_ALL):
            raise InvalidRequest(f"acks is {acks}; it can be 0, 1 or -1 (all)")
        self._client = client_of(client, "Producer")
        self._acks = acks
        self._is_idempotent = is_idempotent and acks == ACKS_ALL
        self._compression = compression_named(compression)
        self._linger_seconds = linger_ms / 1000
        self._batch_bytes_max = batch_bytes_max
        self._request_bytes_max = request_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._delivery_timeout_seconds = delivery_timeout_ms / 1000
        self._send_wait_seconds_max = send_wait_ms_max / 1000
        self._on_failure = on_failure
        self._sticky = StickyPartitioner(client.random)
        self._identity = NO_IDENTITY
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._unfinished = 0
        self._flushing = 0
        self._first_failure: OdradekError | None = None
        self._tasks = TaskOwner("producer")
        self._started = False
        self._closing = False

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(is_flushing=failure is None)

    async def start(self) -> None:
        """Get a producer id where one is needed and begin to send."""
        if self._is_idempotent:
            self._identity = await self._client.with_retries(lambda: initialize_producer_id(self._client))
        self._tasks.start(self._run(), name="sender")
        self._started = True

    async def close(self, *, is_flushing: bool = True) -> None:
        """Send what waits (unless told not to), then stop. Raises the first failure as `flush` does."""
        self._closing = True
        try:
            if is_flushing and self._started:
                await self.flush()
        finally:
            await self._tasks.close()
            for queue in self._queues.values():
                for batch in (*([queue.in_flight] if queue.in_flight else []), *queue.batches):
                    if not batch.done.done():
                        batch.done.set_exception(
                            ClientClosed("the producer was closed before it was written")
                        )

    async def flush(self) -> None:
        """Wait until all that was sent is acknowledged or failed; raise the first failure since the last flush."""
        self._flushing += 1
        self._wake.set()
        try:
            await self._idle.wait()
        finally:
            self._flushing -= 1
        failure, self._first_failure = self._first_failure, None
        if failure is not None:
            raise failure

    # --- taking records -------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record on its way; waits only for metadata and for room in the buffer.

        Raises UnknownTopicOrPartition, RecordTooLarge, BufferFull, ClientClosed, and TypeError for what is not bytes.
        """
        if self._closing or not self._started:
            raise self._not_running()
        if (
            type(value) is not bytes
            or type(topic) is not str
            or headers
            or (key is not None and type(key) is not bytes)
        ):
            value, key, headers = record_parts(topic, value, key, headers)
        size_bytes = record_bytes(key, value, headers)  # type: ignore[arg-type]  # no other types get here
        if size_bytes > self._buffer_bytes_max:
            raise RecordTooLarge(
                f"a record of {size_bytes} bytes does not fit in the producer's buffer of {self._buffer_bytes_max}"
            )
        if topic not in self._client.cluster.topics:
            await self._client.with_retries(lambda: self._known(topic))
        if self._buffered_bytes + size_bytes > self._buffer_bytes_max:
            await self._wait_for_room(size_bytes)
        now = asyncio.get_running_loop().time()
        target = self._choose(topic, key, partition)
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = PartitionQueue(target)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        delivery, is_full, added_bytes = queue.append(
            timestamp_ms,
            key,
            value,
            headers,  # type: ignore[arg-type]
            now=now,
            batch_bytes_max=self._batch_bytes_max,
        )
        self._buffered_bytes += added_bytes
        if delivery._index == 0:  # a new batch
            self._unfinished += 1
            self._idle.clear()
            self._wake.set()
        if is_full and key is None and partition is None:
            self._sticky.batch_full(topic, target.partition, self._available(topic))
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """`send`, and wait until the record is written; raises why it could not be. One at a time, so slow."""
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    def _not_running(self) -> ClientClosed:
        if self._closing:
            return ClientClosed("the producer is closed")
        return ClientClosed(
            "the producer is not started: write `async with Producer(client) as producer:`, or await producer.start()"
        )

    async def _known(self, topic: str) -> None:
        # A partition without a leader is enough: its records wait for one as long as for their delivery.
        (await self._client.topics((topic,), allow_creation=True)).topic(topic)

    def _available(self, topic: str) -> Sequence[int]:
        partitions = self._client.cluster.topic(topic).partitions
        led = [partition.partition for partition in partitions if partition.leader != NO_LEADER]
        return led or [partition.partition for partition in partitions]

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        info = self._client.cluster.topic(topic)
        count = len(info.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has no partition {partition}; it has {count}, numbered from 0"
                )
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        return TopicPartition(topic, self._sticky.partition(topic, self._available(topic)))

    async def _wait_for_room(self, size_bytes: int) -> None:
        try:
            async with asyncio.timeout(self._send_wait_seconds_max):
                while self._buffered_bytes + size_bytes > self._buffer_bytes_max:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferFull(
                f"the producer's buffer of {self._buffer_bytes_max} bytes stayed full for "
                f"{self._send_wait_seconds_max:.0f} s: the broker takes records slower than they come"
            ) from None

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
        """Send all that is due and say in how many seconds the next batch will be."""
        by_leader: dict[int, list[PartitionQueue]] = {}
        next_due: float | None = None
        is_refresh_due = False
        for queue in self._queues.values():
            due = queue.due_at(
                linger_seconds=0.0 if self._flushing else self._linger_seconds,
                batch_bytes_max=self._batch_bytes_max,
            )
            if due is None:
                continue
            if due > now:
                next_due = due if next_due is None else min(next_due, due)
                continue
            leader = self._leader_of(queue.topic_partition)
            if leader == NO_LEADER:
                self._again(queue, queue.batches.popleft(), LeaderNotAvailable("no leader is known"))
                is_refresh_due = True
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

    def _leader_of(self, topic_partition: TopicPartition) -> int:
        try:
            return self._client.cluster.partition(topic_partition).leader
        except OdradekError:
            return NO_LEADER

    async def _refresh(self) -> None:
        try:
            await self._client.refresh(sorted({key.topic for key in self._queues}))
        except OdradekError as failure:
            logger.warning("the metadata could not be refreshed, trying again: %s", failure)

    def _send_to(self, leader: int, queues: list[PartitionQueue]) -> None:
        batches: list[PendingBatch] = []
        size_bytes = 0
        for queue in queues:
            first = queue.batches[0]
            if batches and size_bytes + first.payload_bytes > self._request_bytes_max:
                self._tasks.start(self._send(leader, batches), name=f"request to {leader}")
                batches, size_bytes = [], 0
            queue.in_flight = queue.batches.popleft()
            self._seal(queue, first)
            batches.append(first)
            size_bytes += first.payload_bytes
        self._tasks.start(self._send(leader, batches), name=f"request to {leader}")

    def _seal(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        if not self._is_idempotent:
            if batch.data is None:
                batch.seal(compression=self._compression, identity=NO_IDENTITY, sequence=-1)
            return
        if batch.identity != NO_IDENTITY:
            return  # another try of the same batch, under the same number
        if queue.sequence_identity != self._identity:
            queue.sequence_identity = self._identity
            queue.next_sequence = 0
        batch.seal(compression=self._compression, identity=self._identity, sequence=queue.next_sequence)
        queue.next_sequence = advance_sequence(queue.next_sequence, len(batch.builder))

    async def _send(self, leader: int, batches: list[PendingBatch]) -> None:
        for batch in batches:
            batch.attempts += 1
        try:
            outcomes = await produce(self._client, leader, batches, acks=self._acks)
        except OdradekError as failure:
            outcomes = {batch.topic_partition: failure for batch in batches}
        is_stale = False
        for batch in batches:
            queue = self._queues[batch.topic_partition]
            outcome = outcomes.get(batch.topic_partition) or InvalidRequest(
                "the broker left it out of its answer"
            )
            is_renewed = isinstance(outcome, OdradekError) and self._may_renew(batch, outcome)
            if is_renewed:
                # It counts as under way meanwhile: nothing behind it may go before it.
                await self._renew_identity(batch.identity)
                batch.identity = NO_IDENTITY
            queue.in_flight = None
            if not isinstance(outcome, OdradekError):
                self._succeed(batch, outcome)
            elif isinstance(outcome, DuplicateSequence):
                self._succeed(batch, BatchOutcome(-1, -1))
            elif is_renewed:
                self._again(queue, batch, outcome)
            elif isinstance(outcome, (*RETRIABLE, ClientTimeout)):
                is_stale = True
                self._again(queue, batch, outcome)
            else:
                await self._fail(batch, outcome)
        if is_stale:
            await self._refresh()
        self._wake.set()

    def _may_renew(self, batch: PendingBatch, outcome: OdradekError) -> bool:
        """Whether the broker lost this producer's state without having written the batch: a new id is safe then."""
        if isinstance(outcome, UnknownProducerId):
            return True
        return isinstance(outcome, OutOfOrderSequence) and batch.attempts == 1

    def _again(self, queue: PartitionQueue, batch: PendingBatch, failure: OdradekError) -> None:
        """Put the batch back in front, unless its time is up."""
        now = asyncio.get_running_loop().time()
        pause_ms = min(CLIENT_RETRY_PAUSE_MS_MIN * 2 ** min(batch.attempts, 10), CLIENT_RETRY_PAUSE_MS_MAX)
        batch.attempts = max(batch.attempts, 1)
        batch.retry_at = now + pause_ms / 1000
        if batch.retry_at > batch.created_at + self._delivery_timeout_seconds:
            late = ClientTimeout(
                f"{len(batch.builder)} records for {batch.topic_partition} could not be written in "
                f"{self._delivery_timeout_seconds:g} s; the last try said: {failure}"
            )
            self._tasks.start(self._fail(batch, late), name="fail a batch")
            return
        logger.debug("batch for %s goes again in %d ms: %s", batch.topic_partition, pause_ms, failure)
        queue.batches.appendleft(batch)

    def _succeed(self, batch: PendingBatch, outcome: BatchOutcome) -> None:
        if not batch.done.done():
            batch.done.set_result(outcome)
        self._finish(batch)

    async def _fail(self, batch: PendingBatch, failure: OdradekError) -> None:
        if self._first_failure is None:
            self._first_failure = failure
        if not batch.done.done():
            batch.done.set_exception(failure)
        if self._on_failure is not None:
            self._on_failure(batch.topic_partition, len(batch.builder), failure)
        # Its sequence numbers are spent and the broker may not have seen them: start anew under another epoch.
        if self._is_idempotent and batch.identity == self._identity:
            await self._renew_identity(batch.identity)
        self._finish(batch)

    def _finish(self, batch: PendingBatch) -> None:
        self._buffered_bytes -= batch.payload_bytes
        self._unfinished -= 1
        self._room.set()
        if not self._unfinished:
            self._idle.set()

    async def _renew_identity(self, old: ProducerIdentity) -> None:
        """Another epoch, at once (KIP-360): what is under way under the old one is refused when it comes late, and
        nothing is sent in between. Another id only where there are no more epochs.
        """
        if self._identity != old:
            return
        if old.epoch < _EPOCH_MAX:
            self._identity = ProducerIdentity(old.id, old.epoch + 1)
            return
        try:
            self._identity = await self._client.with_retries(lambda: initialize_producer_id(self._client))
        except OdradekError as failure:
            logger.warning("no new producer id could be had, the old one stays: %s", failure)
