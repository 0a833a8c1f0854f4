"""The producer: chooses a partition for each record, and passes batches to the sender (`sender`). Idempotent by
default: the broker recognises the retry of a batch that it has written. Memory is bounded by the buffer: `send` waits
when it is full. With a transactional id all records belong to transactions (`transaction_calls`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from odradek.client.arguments import (
    Acks,
    Buffer,
    GivenHeaders,
    all_record_bytes,
    find_acks,
    find_compression,
    record_parts,
    topic_name,
    whole_number,
)
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client, client_of
from odradek.client.errors import ClientClosed, NoTransaction
from odradek.client.metadata import NO_LEADER
from odradek.client.producer.audit import Audit
from odradek.client.producer.batches import (
    NO_IDENTITY,
    Delivery,
    Incoming,
    OnDone,
    ProducerIdAndEpoch,
    RecordMetadata,
    Values,
    record_bytes,
)
from odradek.client.producer.partitioners import StickyPartitioner, partition_for_key
from odradek.client.producer.requests import ACKS_ALL
from odradek.client.producer.sender import OnFailure, OnRetry, Sender, SenderSettings
from odradek.client.producer.transaction_calls import TransactionCalls
from odradek.client.producer.transactions import Phase
from odradek.foundation.client_limits import PRODUCER_SLICE_BYTES_MAX
from odradek.foundation.errors import InvalidRequest, OdradekError, RecordTooLarge
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import Headers


class SendProgress(NamedTuple):
    """The progress of a producer: records accepted, records acknowledged, and the first ones that all are acknowledged.
    Without acknowledgements (acks 0), a record counts as acknowledged once it is sent.
    """

    taken: int
    written: int
    written_in_order: int


@checking_arguments("__init__")
class Producer(TransactionCalls):
    """`async with Producer(client) as producer: delivery = await producer.send("orders", b"value", key=b"k")`.

    `send` returns a Delivery; `await delivery` waits for the broker. `flush` waits for all records and raises the first
    failure since the last flush. So no record is lost unseen, even without awaiting its delivery. `on_failure` is
    called for a batch that cannot be written, with its partition, the count of its records, and the error. `on_retry`
    is called for each retry of a batch, with its partition, its age in seconds, and the error.

    With a `transactional_id`, records are sent within `async with producer.transaction():`. All of a transaction is
    there for readers of committed records, or nothing of it. A producer that starts ends what an earlier one of the
    same id has open, and that one is refused from then on (ProducerFenced). The broker aborts what is open for longer
    than `transaction_timeout_ms`. With an `identity` of `handover.start_epoch` the producer continues from that epoch.
    """

    def __init__(
        self,
        client: Client,
        *,
        acks: Acks = "all",
        is_idempotent: bool = True,
        compression: Compression | str = Compression.NONE,
        linger_ms: float = 5.0,
        batch_bytes_max: int = 64 * 1024,
        request_bytes_max: int = 1024 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        delivery_timeout_ms: int = 120_000,
        send_wait_ms_max: int = 60_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        identity: ProducerIdAndEpoch = NO_IDENTITY,
        on_failure: OnFailure | None = None,
        on_retry: OnRetry | None = None,
        audit: Audit | None = None,
    ) -> None:
        acks = find_acks(acks)
        if transactional_id is not None:
            topic_name(transactional_id, argument="transactional_id")
            if acks != ACKS_ALL or not is_idempotent:
                raise InvalidRequest(
                    "a transactional producer is idempotent and waits for all replicas: acks='all'"
                )
        self._client = client_of(client, "Producer")
        self._buffer_bytes_max = buffer_bytes_max
        settings = SenderSettings(
            acks=acks,
            is_idempotent=is_idempotent and acks == ACKS_ALL,
            compression=find_compression(compression),
            linger_seconds=linger_ms / 1000,
            batch_bytes_max=batch_bytes_max,
            request_bytes_max=request_bytes_max,
            buffer_bytes_max=buffer_bytes_max,
            delivery_timeout_seconds=delivery_timeout_ms / 1000,
            room_wait_seconds_max=send_wait_ms_max / 1000,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            identity=identity,
        )
        self._sender = Sender(client, settings, on_failure=on_failure, on_retry=on_retry)
        self._audit = audit
        if audit is not None:
            if acks == 0:
                raise InvalidRequest("an audit counts acknowledged records, and acks 0 has none")
            self._sender.on_written = audit.count_written
            audit.attach(client, self, Producer(client, delivery_timeout_ms=delivery_timeout_ms))
        self._sticky = StickyPartitioner(client.random)
        self._slice_bytes_max = min(PRODUCER_SLICE_BYTES_MAX, buffer_bytes_max // 4)
        self._taken = 0
        self._started = False
        self._closing = False

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        await self.close(is_flushing=failure is None)

    async def start(self) -> None:
        """Get a producer id if needed and begin to send. Raises ClientClosed for a second start.

        With a transactional id it ends what an earlier producer of that id has open.
        """
        if self._started or self._closing:
            raise ClientClosed("the producer was started or closed before; create another")
        await self._sender.start()
        self._started = True
        if self._audit is not None:
            try:
                await self._audit.start()
            except BaseException:
                await self.close(is_flushing=False)
                raise

    async def close(self, *, is_flushing: bool = True) -> None:
        """Send the waiting records unless `is_flushing` is false, then stop. Raises as `flush`.

        A transaction that is still open is aborted.
        """
        self._client.check_loop()
        self._closing = True
        transactions = self._sender.transactions
        try:
            if transactions is not None and transactions.phase in (Phase.OPEN, Phase.FAILED):
                await self._abort_at_end()
            elif is_flushing and self._started:
                await self.flush()
        finally:
            if self._audit is not None and self._started:
                await self._audit.close()
            await self._sender.close()

    async def flush(self, *, is_stopping_at_failure: bool = False) -> None:
        """Wait until all records are acknowledged or failed. Raises the first failure since the last flush.

        With `is_stopping_at_failure` it is raised at once, while other records are still under way.
        """
        self._client.check_loop()
        await self._sender.flush(is_stopping_at_failure=is_stopping_at_failure)

    def _take_back(self, partition: TopicPartition) -> None:
        """End what waits for a partition with TakenBack (`on_done`), so that it can be sent to another partition.

        It does nothing where a batch may have been written.
        """
        self._sender.take_back(partition)

    @property
    def failure(self) -> OdradekError | None:
        """The error that the next flush will raise, or None."""
        return self._sender.failure

    @property
    def progress(self) -> SendProgress:
        """The numbers of accepted and acknowledged records now."""
        unwritten = self._sender.first_unwritten_serial()
        return SendProgress(
            self._taken, self._sender.written_count, self._taken if unwritten is None else unwritten
        )

    @property
    def serials(self) -> tuple[int, int | None]:
        """The number of accepted records, and the number of the first that waits for its acknowledgement, if any."""
        return self._taken, self._sender.first_waiting_serial()

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
        """Add a record to a batch. Waits only for metadata and for space in the buffer. Raises UnknownTopicOrPartition,
        RecordTooLarge, BufferFull, ClientClosed, and TypeError for a part that is not bytes.
        """
        self._check_sending()
        if (
            type(value) is not bytes
            or type(topic) is not str
            or headers
            or (key is not None and type(key) is not bytes)
        ):
            value, key, headers = record_parts(topic, value, key, headers)
        try:
            return await self._send_bytes(topic, value, key, headers, partition, timestamp_ms)  # type: ignore[arg-type]
        except OdradekError as failure:
            self._note_refusal(failure)
            raise

    async def _send_bytes(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Delivery:
        size_bytes = record_bytes(key, value, headers)
        await self._ready(topic, size_bytes, partition)
        target = self._choose(topic, key, partition)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif whole_number(timestamp_ms, "timestamp_ms") < 0:
            raise ValueError(f"timestamp_ms is {timestamp_ms}; it has to be milliseconds since 1970")
        queue = self._sender.queue(target)
        before = len(queue.batches)
        delivery, added_bytes = queue.append(
            timestamp_ms, key, value, headers, serial=self._taken, now=asyncio.get_running_loop().time()
        )
        self._taken += 1
        is_new = len(queue.batches) > before
        self._sender.note_added(added_bytes, is_new=is_new)
        if is_new and before and key is None and partition is None:
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
        """`send`, and wait until the record is written. Raises the error of its write. Slow, since records are written
        one at a time.
        """
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def send_many(
        self,
        topic: str,
        values: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        key: Buffer | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        on_done: OnDone | None = None,
    ) -> None:
        """Add a record for each value to batches, in order, many times faster than one by one. Waits as `send` does.
        `keys` has one for each value; without it all have `key`. All have the same headers, and the time of the call.
        `flush` raises failures, and `progress` counts records. `on_done` is called with the positions of values
        that are written, or have failed and why, batch by batch. Raises as `send` does, and ValueError for another
        number of keys. A record that is too large does not remove the records before it.
        """
        self._check_sending()
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys for {len(values)} values; each value needs one")
        _, shared_key, pairs = record_parts(topic, None, key, headers)
        given = Incoming(
            cast(Sequence[bytes | None], all_record_bytes(values, "values")),
            keys=None if keys is None else cast(Sequence[bytes | None], all_record_bytes(keys, "keys")),
            key=shared_key,
            headers=pairs,
        )
        start = 0
        while start < len(given):
            # A slice is added whole or not at all, so that the added records have no gaps.
            end = max(given.fitting(start, self._slice_bytes_max), start + 1)
            size_bytes = given.size_bytes(start, end)
            try:
                await self._ready(topic, size_bytes, partition)
                self._put(topic, given, start, end, partition, on_done)
            except OdradekError as failure:
                self._note_refusal(failure)
                raise
            start = end

    def _put(
        self,
        topic: str,
        given: Incoming,
        start: int,
        end: int,
        partition: int | None,
        on_done: OnDone | None,
    ) -> None:
        """Add the records from `start` to `end` to batches, without waiting."""
        serials = range(self._taken, self._taken + end - start)
        if given.keys is not None and partition is None:
            for target, part, positions in self._by_partition(topic, given, start, end):
                chosen = [serials[position] for position in positions]
                values = Values(positions, start, on_done)
                self._fill(target, part, 0, chosen, topic=topic, values=values)
        elif given.key is not None or partition is not None:
            values = Values(range(end - start), start, on_done)
            self._fill(self._choose(topic, given.key, partition), given, start, serials, values=values)
        else:
            values = Values(range(end - start), start, on_done)
            self._fill(None, given, start, serials, topic=topic, values=values)
        self._taken += end - start

    def _fill(
        self,
        target: TopicPartition | None,
        given: Incoming,
        start: int,
        serials: Sequence[int],
        *,
        topic: str = "",
        values: Values,
    ) -> None:
        """Add as many records as there are `serials` to batches of `target`. None stands for the sticky partitions."""
        now = asyncio.get_running_loop().time()
        timestamp_ms = time.time_ns() // 1_000_000
        while serials:
            chosen = target or self._choose(topic, None, None)
            queue = self._sender.queue(chosen)
            before = len(queue.batches)
            count, added_bytes = queue.extend(timestamp_ms, given, start, serials, now=now)
            is_full = queue.batches[-1].is_full
            values.follow(queue.batches[-1], count)
            self._sender.note_added(added_bytes, is_new=len(queue.batches) > before, is_full=is_full)
            if is_full and target is None:
                self._sticky.batch_full(topic, chosen.partition, self._available(topic))
            start += count
            serials = serials[count:]

    def _by_partition(
        self, topic: str, given: Incoming, start: int, end: int
    ) -> Iterator[tuple[TopicPartition | None, Incoming, list[int]]]:
        """The records with their positions from `start` on, by the partition that their keys choose; None for null."""
        assert given.keys is not None
        count = len(self._client.cluster.topic(topic).partitions)
        groups: dict[int | None, list[int]] = {}
        keys = given.keys[start:end]
        for position, key in enumerate(keys):
            group = None if key is None else partition_for_key(key, count)
            groups.setdefault(group, []).append(position)
        values = given.values[start:end]
        for group, positions in groups.items():
            part = Incoming(
                [values[position] for position in positions],
                keys=None if group is None else [keys[position] for position in positions],
                key=None,
                headers=given.headers,
            )
            yield None if group is None else TopicPartition(topic, group), part, positions

    def _check_running(self) -> None:
        self._client.check_loop()
        if self._closing:
            raise ClientClosed("the producer is closed")
        if not self._started:
            raise ClientClosed(
                "the producer is not started: write `async with Producer(client) as producer:`, "
                "or await producer.start()"
            )

    def _check_sending(self) -> None:
        self._check_running()
        if self._sender.transactions is not None:
            self._sender.transactions.require(Phase.OPEN)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._buffer_bytes_max:
            raise RecordTooLarge(
                f"a record of {size_bytes} bytes does not fit in the producer's buffer of {self._buffer_bytes_max}"
            )

    async def _ready(self, topic: str, size_bytes: int, partition: int | None) -> None:
        """Check the size, and wait for the topic's partitions and for space in the buffer."""
        self._check_size(size_bytes)
        if topic not in self._client.cluster.topics:
            await self._client.with_retries(lambda: self._ensure_topic(topic))
        if partition is not None and whole_number(partition, "partition") >= self._partition_count(topic):
            # It may have been added since the metadata was read.
            await self._client.with_retries(lambda: self._client.refresh((topic,)))
        if not self._sender.has_room(size_bytes):
            await self._sender.wait_for_room(size_bytes)
        if self._sender.transactions is not None:
            self._sender.transactions.require(Phase.OPEN)  # it may have ended by now

    def _note_refusal(self, failure: OdradekError) -> None:
        """A record was not added: a commit would lack it, so its transaction fails, as in Kafka's producer."""
        if self._sender.transactions is not None and not isinstance(failure, NoTransaction):
            self._sender.transactions.note_lost_batch(failure, was_sent=False)

    async def _ensure_topic(self, topic: str) -> None:
        # A partition without a leader is enough: its records wait for a leader within their delivery timeout.
        (await self._client.topics((topic,), allow_creation=True)).topic(topic)

    def _partition_count(self, topic: str) -> int:
        return len(self._client.cluster.topic(topic).partitions)

    def _available(self, topic: str) -> Sequence[int]:
        partitions = self._client.cluster.topic(topic).partitions
        led = [partition.partition for partition in partitions if partition.leader != NO_LEADER]
        return led or [partition.partition for partition in partitions]

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        info = self._client.cluster.topic(topic)
        count = len(info.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise info.no_partition(partition)
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        return TopicPartition(topic, self._sticky.partition(topic, self._available(topic)))
