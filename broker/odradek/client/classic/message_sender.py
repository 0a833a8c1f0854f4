"""Encodes messages, chooses their partitions and writes them: the engine of both faces of the producer.

    encode -> partition -> batches of each partition -> Produce to the leaders -> wait for all of them

A message that cannot be encoded, or whose partitioner fails, does not keep its neighbours from being written. Then
FailedToSendMessageException names each with its error; of a single message, its own error is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from odradek.client.classic.brokers import bootstrap_of, check_one_source
from odradek.client.classic.errors import (
    FailedToSendMessageException,
    InvalidPartitionException,
    MessageSizeTooLargeException,
    NoBrokersForPartitionException,
)
from odradek.client.classic.messages import (
    DefaultEncoder,
    Encoder,
    HashPartitioner,
    KeyedMessage,
    Partitioner,
)
from odradek.client.classic.properties import Properties
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.network.network import Network
from odradek.wire.records.compression import Compression

# Of a request besides its largest message.
_REQUEST_ROOM_BYTES = 64 * 1024


class _Encoded(NamedTuple):
    event: KeyedMessage
    key: bytes | None
    value: bytes | None


class MessageSender:
    """Open it once, then `send` lists of messages; calls wait for one another."""

    def __init__(
        self,
        properties: Properties,
        *,
        encoder: Encoder | None,
        key_encoder: Encoder | None,
        partitioner: Partitioner | None,
        network: Network | None,
    ) -> None:
        """Raises InvalidConfigException."""
        check_one_source(properties)
        self._properties = properties
        self._encoder = encoder or DefaultEncoder()
        self._key_encoder = key_encoder or self._encoder
        self._partitioner = partitioner or HashPartitioner()
        self._network = network
        self._random = Random()
        self._client: Client | None = None
        self._producers: dict[Compression, Producer] = {}
        self._turn = asyncio.Lock()
        self._failed: dict[TopicPartition, OdradekError] = {}

    async def _connect(self) -> Client:
        if self._client is None:
            properties = self._properties
            client = Client(
                await bootstrap_of(properties),
                client_id=properties["client.id"],
                request_timeout_ms=properties["request.timeout.ms"],
                network=self._network,
            )
            try:
                await client.connect()
            except BaseException:
                await client.close()
                raise
            self._client = client
        return self._client

    async def close(self) -> None:
        """Close the connections. Everything that `send` returned for is written."""
        try:
            for producer in self._producers.values():
                await producer.close(is_flushing=False)
        finally:
            if self._client is not None:
                await self._client.close()

    async def send(self, events: Sequence[KeyedMessage]) -> None:
        """Write all messages and wait until they are. Raises as the head of this module says."""
        async with self._turn:
            failures: list[tuple[KeyedMessage, Exception]] = []
            encoded = self._encode(events, failures)
            groups = await self._group_messages(encoded, failures)
            self._failed.clear()
            refused = await self._write(groups)
            for key, rows in groups.items():
                failure = refused.get(key) or self._failed.get(key)
                if failure is not None:
                    failures += [(row.event, failure) for row in rows]
        _raise_failures(failures, len(events))

    # --- one step each ----------------------------------------------------------------------------------------------

    def _encode(
        self, events: Sequence[KeyedMessage], failures: list[tuple[KeyedMessage, Exception]]
    ) -> list[_Encoded]:
        size_max = self._properties["max.message.size"]
        encoded: list[_Encoded] = []
        for event in events:
            try:
                value = self._encoder.to_message(event.message)
                key = None if event.key is None else self._key_encoder.to_message(event.key)
                _check_encoded(value, "message")
                _check_encoded(key, "key")
                size = len(value or b"") + len(key or b"")
                if size > size_max:
                    raise MessageSizeTooLargeException(
                        f"a message for topic {event.topic!r} has {size} bytes; max.message.size is {size_max}"
                    )
            except Exception as failure:
                failures.append((event, failure))
            else:
                encoded.append(_Encoded(event, key, value))
        return encoded

    async def _group_messages(
        self, encoded: Sequence[_Encoded], failures: list[tuple[KeyedMessage, Exception]]
    ) -> dict[TopicPartition, list[_Encoded]]:
        """The messages by their partitions, in order."""
        counts: dict[str, int | Exception] = {}
        random_partitions: dict[str, int] = {}
        groups: dict[TopicPartition, list[_Encoded]] = {}
        for row in encoded:
            topic = row.event.topic
            if topic not in counts:
                counts[topic] = await self._partition_count(topic)
            count = counts[topic]
            try:
                if isinstance(count, Exception):
                    raise count
                number = self._choose_partition(row, count, random_partitions)
            except Exception as failure:
                failures.append((row.event, failure))
            else:
                groups.setdefault(TopicPartition(topic, number), []).append(row)
        return groups

    async def _partition_count(self, topic: str) -> int | Exception:
        try:
            client = await self._connect()

            async def count_partitions() -> int:
                # A topic that is just made has no leaders for a moment.
                return len((await client.topics([topic], allow_creation=True)).topic(topic).partitions)

            count = await client.with_retries(count_partitions)
        except OdradekError as failure:
            return failure
        return count or NoBrokersForPartitionException(f"topic {topic!r} has no partitions")

    def _choose_partition(self, row: _Encoded, count: int, random_partitions: dict[str, int]) -> int:
        event = row.event
        key = event.key if event.part_key is None else event.part_key
        if key is None:
            # One for the batch's messages without a key: a request to each broker would cost more.
            return random_partitions.setdefault(event.topic, self._random.randrange(count))
        if isinstance(self._partitioner, HashPartitioner):
            key = row.key if event.part_key is None else self._key_encoder.to_message(key)
        number = self._partitioner.partition(key, count)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
            raise InvalidPartitionException(
                f"{type(self._partitioner).__name__} returned {number!r} for a message of topic {event.topic!r}, which "
                f"has the partitions 0 to {count - 1}"
            )
        return number

    async def _write(
        self, groups: dict[TopicPartition, list[_Encoded]]
    ) -> dict[TopicPartition, OdradekError]:
        """Write each partition's messages. Returns the partitions that were refused at once."""
        used: dict[Compression, Producer] = {}
        refused: dict[TopicPartition, OdradekError] = {}
        for key, rows in groups.items():
            try:
                compression = self._compression(key.topic)
                producer = used[compression] = await self._producer(compression)
                await _put(producer, key, rows)
            except OdradekError as failure:
                refused[key] = failure
        for producer in used.values():
            try:
                await producer.flush()
            except OdradekError as failure:
                if not self._failed and not refused:
                    # It is of no single partition: a producer id that cannot be had.
                    refused = dict.fromkeys(groups, failure)
        return refused

    def _compression(self, topic: str) -> Compression:
        topics = self._properties["compressed.topics"]
        codec: Compression = self._properties["compression.codec"]
        return codec if not topics or topic in topics else Compression.NONE

    async def _producer(self, compression: Compression) -> Producer:
        producer = self._producers.get(compression)
        if producer is None:
            acks = self._properties["request.required.acks"]
            producer = Producer(
                await self._connect(),
                acks=acks,
                is_idempotent=acks == -1,
                compression=compression,
                linger_ms=0,
                batch_bytes_max=max(256 * 1024, self._properties["max.message.size"] + _REQUEST_ROOM_BYTES),
                request_bytes_max=max(
                    1 << 20, self._properties["max.message.size"] + 2 * _REQUEST_ROOM_BYTES
                ),
                delivery_timeout_ms=self._properties["delivery.timeout.ms"],
                on_failure=self._note_failure,
            )
            await producer.start()
            self._producers[compression] = producer
        return producer

    def _note_failure(self, partition: TopicPartition, count: int, failure: OdradekError) -> None:
        self._failed.setdefault(partition, failure)


async def _put(producer: Producer, key: TopicPartition, rows: Sequence[_Encoded]) -> None:
    """Hand one partition's messages to the producer, in order."""
    if any(row.event.headers for row in rows):
        for row in rows:
            await producer.send(
                key.topic, row.value, key=row.key, headers=row.event.headers, partition=key.partition
            )
        return
    await producer.send_many(
        key.topic, [row.value for row in rows], keys=[row.key for row in rows], partition=key.partition
    )


def _check_encoded(given: object, what: str) -> None:
    if given is not None and type(given) is not bytes:
        raise TypeError(
            f"the encoder returned {type(given).__name__} for the {what}; it has to return bytes or None"
        )


def _raise_failures(failures: Sequence[tuple[KeyedMessage, Exception]], count: int) -> None:
    if not failures:
        return
    first = failures[0][1]
    if count == 1:
        raise first
    raise FailedToSendMessageException(
        f"{len(failures)} of {count} messages were not written; the first one, for topic {failures[0][0].topic!r}: "
        f"{first}",
        failures,
    ) from first
