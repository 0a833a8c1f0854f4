"""Encodes messages, chooses their partitions and writes them: the engine of both faces of the producer.

    encode -> partition -> batches of each partition -> Produce to the leaders -> each message is noted

Messages of one partition do not wait for those of another. A message that cannot be encoded, or whose partitioner
fails, does not keep its neighbours from being written. Then FailedToSendMessageException names each with its error; of
a single message, its own error is raised.

A message without a key goes to a partition that has a leader. It goes to another one if that leader is lost before the
message was sent, as in Kafka 0.8.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from random import Random
from typing import Final, NamedTuple

from odradek.client.classic.brokers import check_one_source, find_bootstrap, open_session
from odradek.client.classic.cluster_follower import ClusterFollower
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
    Message,
    Partitioner,
)
from odradek.client.classic.properties import Properties
from odradek.client.client import Client
from odradek.client.errors import ClientClosed, ClientTimeout, ConnectionFailed
from odradek.client.metadata import NO_LEADER, PartitionInfo
from odradek.client.producer.batches import record_bytes
from odradek.client.producer.producer import Producer
from odradek.client.producer.sender import TakenBack
from odradek.foundation.client_limits import PRODUCER_MOVES_MAX, PRODUCER_SLICE_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.network.network import Network
from odradek.wire.records.compression import Compression

# Of a request besides its largest message.
_REQUEST_ROOM_BYTES: Final = 64 * 1024
# Half of what a producer takes in one step, so that it takes a chunk whole or not at all.
_CHUNK_BYTES_MAX: Final = PRODUCER_SLICE_BYTES_MAX // 2
# How long a leader that cannot be reached gets no messages without a key.
_UNREACHABLE_SECONDS: Final = 5.0

# Called with messages that are written, or with those that have failed and the reason.
Note = Callable[[Sequence[KeyedMessage], Exception | None], None]


class _Encoded(NamedTuple):
    event: KeyedMessage
    key: bytes | None
    value: bytes | None
    moves: int = 0

    @property
    def is_free(self) -> bool:
        """Whether any partition will do."""
        return self.is_unkeyed and self.moves < PRODUCER_MOVES_MAX

    @property
    def is_unkeyed(self) -> bool:
        """Whether the program leaves the partition open."""
        event = self.event
        return event.key is None and event.part_key is None and event.partition is None


class MessageSender:
    """`send` writes messages and waits for them; `submit` does not wait."""

    def __init__(
        self,
        properties: Properties,
        *,
        encoder: Encoder | None,
        key_encoder: Encoder | None,
        partitioner: Partitioner | None,
        network: Network | None,
        is_loop_running: bool,
    ) -> None:
        """`is_loop_running`: the loop runs between calls too. Raises InvalidConfigException."""
        check_one_source(properties)
        self._properties = properties
        self._encoder = encoder or DefaultEncoder()
        self._key_encoder = key_encoder or self._encoder
        self._partitioner = partitioner or HashPartitioner()
        self._network = properties.security.network(network, client_id=properties["client.id"])
        self._random = Random()
        self._is_loop_running = is_loop_running
        self._client: Client | None = None
        self._follower: ClusterFollower | None = None
        self._producers: dict[Compression, Producer] = {}
        self._connecting = asyncio.Lock()
        self._tasks = TaskOwner("message sender")
        self._is_closed = False
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """By topic: messages that wait until a broker reports the topic's partitions."""
        self._bound: Counter[TopicPartition] = Counter()
        """The messages under way that have to stay with their partition."""
        self._unreachable: dict[int, float] = {}
        """Leaders that could not be reached, each with the time until which it is avoided."""

    async def _connect(self) -> Client:
        async with self._connecting:
            if self._client is None:
                properties = self._properties
                store = await open_session(properties) if properties["zookeeper.connect"] else None
                client = Client(
                    await find_bootstrap(properties, store),
                    client_id=properties["client.id"],
                    request_timeout_ms=properties["request.timeout.ms"],
                    network=self._network,
                )
                follower = ClusterFollower(properties, client, store)
                try:
                    await client.connect()
                except BaseException:
                    await client.close()
                    await follower.close()
                    raise
                self._client, self._follower = client, follower
                if self._is_loop_running:
                    self._tasks.start(follower.run(), name="follow the cluster")
            return self._client

    async def close(self) -> None:
        """Close the connections. Everything that `send` returned for is written."""
        self._is_closed = True
        try:
            await self._tasks.close()
            for producer in self._producers.values():
                await producer.close(is_flushing=False)
        finally:
            if self._client is not None and self._follower is not None:
                await self._client.close()
                await self._follower.close()

    async def send(self, events: Sequence[KeyedMessage]) -> None:
        """Write all messages and wait until they are. Raises as the head of this module says."""
        failures: list[tuple[KeyedMessage, Exception]] = []
        left = len(events)
        done = asyncio.get_running_loop().create_future()

        def note(some: Sequence[KeyedMessage], failure: Exception | None) -> None:
            nonlocal left
            left -= len(some)
            if failure is not None:
                failures.extend((event, failure) for event in some)
            if not left and not done.done():
                done.set_result(None)

        await self.submit(events, note)
        if left:
            await done
        _raise_failures(failures, len(events))

    async def submit(self, events: Sequence[KeyedMessage], note: Note) -> None:
        """Hand over messages one after another. `note` is called once with each of them, now or later.

        It waits for room in the buffer alone. The messages of a topic that no broker has described yet follow when one
        has.
        """
        await self.submit_encoded(self.encode(events, note), note)

    async def submit_encoded(self, rows: Sequence[_Encoded], note: Note) -> None:
        """As `submit`, for what `encode` gave, perhaps in another thread."""
        if self._follower is not None and not self._is_loop_running and self._follower.is_due:
            await self._follower.refresh()
        by_topic: dict[str, list[_Encoded]] = {}
        for row in rows:
            by_topic.setdefault(row.event.topic, []).append(row)
        for topic, some in by_topic.items():
            before = self._waiting.get(topic)
            if before is None and self._knows(topic):
                await self._put(topic, some, note)
            else:
                task = self._tasks.start(self._put_later(before, topic, some, note), name=f"find {topic}")
                self._waiting[topic] = task
                task.add_done_callback(lambda done, topic=topic: self._forget(topic, done))  # type: ignore[misc]

    def _forget(self, topic: str, done: asyncio.Task[None]) -> None:
        if self._waiting.get(topic) is done:
            del self._waiting[topic]

    # --- one step each ----------------------------------------------------------------------------------------------

    def encode(self, events: Sequence[KeyedMessage], note: Note) -> list[_Encoded]:
        """The messages as bytes; `note` is called with those that cannot be encoded."""
        size_max = self._properties["max.message.size"]
        encoded: list[_Encoded] = []
        for event in events:
            try:
                value = _encode(self._encoder, event.message, "message")
                key = None if event.key is None else _encode(self._key_encoder, event.key, "key")
                size = len(value or b"") + len(key or b"")
                if size > size_max:
                    raise MessageSizeTooLargeException(
                        f"a message for topic {event.topic!r} has {size} bytes; max.message.size is {size_max}"
                    )
            except Exception as failure:
                note([event], failure)
            else:
                encoded.append(_Encoded(event, key, value))
        return encoded

    def _knows(self, topic: str) -> bool:
        found = None if self._client is None else self._client.cluster.topics.get(topic)
        return found is not None and not found.error_code and bool(found.partitions)

    async def _put_later(
        self, before: asyncio.Task[None] | None, topic: str, rows: Sequence[_Encoded], note: Note
    ) -> None:
        """Find the topic's partitions, and put the messages behind those that wait already."""
        try:
            if before is not None:
                await asyncio.wait((before,))
            client = await self._connect()

            async def find() -> bool:
                # A topic that is just made has no leaders for a moment.
                return bool((await client.topics([topic], allow_creation=True)).topic(topic).partitions)

            is_found = await client.with_retries(find)
            if self._follower is not None:
                self._follower.follow(topic)
            if not is_found:
                raise NoBrokersForPartitionException(f"topic {topic!r} has no partitions")
        except asyncio.CancelledError:
            note([row.event for row in rows], _build_closed())
            raise
        except Exception as failure:
            note([row.event for row in rows], failure)
            return
        await self._put(topic, rows, note)

    async def _put(self, topic: str, rows: Sequence[_Encoded], note: Note) -> None:
        """Choose partitions, and hand each one its messages as they came."""
        assert self._client is not None
        try:
            partitions = self._client.cluster.topic(topic).partitions
        except OdradekError as failure:
            note([row.event for row in rows], failure)
            return
        free: int | None = None
        groups: dict[int, list[_Encoded]] = {}
        for row in rows:
            try:
                if row.is_unkeyed:
                    # One for all of a list: a request to each broker would cost more.
                    number = free = self._choose_free(partitions) if free is None else free
                else:
                    number = self._choose_by_key(row, len(partitions))
            except Exception as failure:
                note([row.event], failure)
            else:
                groups.setdefault(number, []).append(row)
        chunks = [
            (TopicPartition(topic, number), chunk)
            for number, group in groups.items()
            for chunk in _chunks(group)
        ]
        for place, (key, chunk) in enumerate(chunks, 1):
            try:
                await self._put_chunk(key, chunk, note)
            except asyncio.CancelledError:
                for _, rest in chunks[place:]:
                    note([row.event for row in rest], _build_closed())
                raise

    def _choose_free(self, partitions: Sequence[PartitionInfo]) -> int:
        """A random partition that has a leader, if there is one; first of all one whose leader is not lost."""
        now = asyncio.get_running_loop().time()
        led = [one for one in partitions if one.leader != NO_LEADER]
        good = [one for one in led if self._unreachable.get(one.leader, now) <= now]
        return self._random.choice(good or led or partitions).partition

    def _choose_by_key(self, row: _Encoded, count: int) -> int:
        event = row.event
        if event.partition is not None:
            return _check_partition("the program", event.partition, event.topic, count)
        key = event.key if event.part_key is None else event.part_key
        if isinstance(self._partitioner, HashPartitioner):
            key = row.key if event.part_key is None else _encode(self._key_encoder, key, "key")
        number = self._partitioner.partition(key, count)
        return _check_partition(type(self._partitioner).__name__, number, event.topic, count)

    async def _put_chunk(self, key: TopicPartition, rows: Sequence[_Encoded], note: Note) -> None:
        """Hand messages with the same headers to the producer, which takes all of them or none."""
        bound = sum(not row.is_free for row in rows)
        self._bound[key] += bound

        def on_done(positions: Sequence[int], failure: OdradekError | None) -> None:
            done = [rows[position] for position in positions]
            self._release(key, sum(not row.is_free for row in done))
            if isinstance(failure, TakenBack) and not self._is_closed:
                moved = [row._replace(moves=row.moves + 1) for row in done]
                self._tasks.start(self._put(key.topic, moved, note), name=f"move from {key}")
            else:
                note([row.event for row in done], failure)

        try:
            producer = await self._producer(self._compression(key.topic))
            await producer.send_many(
                key.topic,
                [row.value for row in rows],
                keys=[row.key for row in rows],
                headers=rows[0].event.headers,
                partition=key.partition,
                on_done=on_done,
            )
        except asyncio.CancelledError:
            note([row.event for row in rows], _build_closed())
            raise
        except Exception as failure:
            self._release(key, bound)
            note([row.event for row in rows], failure)

    def _release(self, key: TopicPartition, count: int) -> None:
        self._bound[key] -= count
        if not self._bound[key]:
            del self._bound[key]

    def _compression(self, topic: str) -> Compression:
        topics = self._properties["compressed.topics"]
        codec: Compression = self._properties["compression.codec"]
        return codec if not topics or topic in topics else Compression.NONE

    async def _producer(self, compression: Compression) -> Producer:
        if compression in self._producers:
            return self._producers[compression]
        client = await self._connect()
        async with self._connecting:
            if compression not in self._producers:
                properties = self._properties
                acks, size_max = properties["request.required.acks"], properties["max.message.size"]
                producer = Producer(
                    client,
                    acks=acks,
                    is_idempotent=acks == -1,
                    compression=compression,
                    linger_ms=0,
                    batch_bytes_max=max(256 * 1024, size_max + _REQUEST_ROOM_BYTES),
                    request_bytes_max=max(1 << 20, size_max + 2 * _REQUEST_ROOM_BYTES),
                    delivery_timeout_ms=properties["delivery.timeout.ms"],
                    send_wait_ms_max=properties["delivery.timeout.ms"],
                    on_retry=lambda key, _, failure: self._note_retry(compression, key, failure),
                )
                await producer.start()
                self._producers[compression] = producer
        return self._producers[compression]

    def _note_retry(self, compression: Compression, key: TopicPartition, failure: OdradekError) -> None:
        """A batch waits for its leader: move it if each of its messages may go elsewhere."""
        assert self._client is not None
        cluster = self._client.cluster
        leader = cluster.leader(key)
        if leader != NO_LEADER and isinstance(failure, ConnectionFailed | ClientTimeout):
            self._unreachable[leader] = asyncio.get_running_loop().time() + _UNREACHABLE_SECONDS
        topic = cluster.topics.get(key.topic)
        others = () if topic is None else topic.partitions
        if not self._bound[key] and any(one.leader not in (NO_LEADER, leader) for one in others):
            self._producers[compression]._take_back(key)


def _build_closed() -> ClientClosed:
    return ClientClosed("the producer was closed before it was written")


def _chunks(rows: Sequence[_Encoded]) -> Iterator[list[_Encoded]]:
    """Runs of messages with the same headers, some messages at a time."""
    for _, same in groupby(rows, key=lambda row: list(row.event.headers)):
        chunk: list[_Encoded] = []
        size_bytes = 0
        for row in same:
            size = record_bytes(row.key, row.value, ()) + sum(
                10 + 4 * len(name) + len(content or b"") for name, content in row.event.headers
            )
            if chunk and size_bytes + size > _CHUNK_BYTES_MAX:
                yield chunk
                chunk, size_bytes = [], 0
            chunk.append(row)
            size_bytes += size
        if chunk:
            yield chunk


def _encode(encoder: Encoder, data: object, what: str) -> bytes | None:
    """The bytes of a message or key. Raises TypeError, and what the encoder raises."""
    encoded: object = data if isinstance(data, Message) else encoder.to_message(data)
    if isinstance(encoded, Message):
        return encoded.payload
    if encoded is not None and type(encoded) is not bytes:
        raise TypeError(
            f"the encoder returned {type(encoded).__name__} for the {what}; it has to return bytes, a Message or None"
        )
    return encoded


def _check_partition(chooser: str, number: object, topic: str, count: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise InvalidPartitionException(
            f"{chooser} returned {number!r} for a message of topic {topic!r}, which has the partitions 0 to {count - 1}"
        )
    return number


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
