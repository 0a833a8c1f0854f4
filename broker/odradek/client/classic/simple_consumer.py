"""SimpleConsumer: one connection to one broker, and the offset in every call (documents 002 and 004, 5.1).

This is the asyncio face; `blocking` has the other one. The broker has to lead the partitions that it is asked for: it
answers NotLeaderOrFollower otherwise, and nothing is looked up or retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, error
from time import time_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.addresses import Address
from odradek.client.classic.errors import InvalidConfigException
from odradek.client.classic.message_sets import ByteBufferMessageSet
from odradek.client.classic.properties import SIMPLE_CONSUMER, Properties
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.fetches import CompletedFetch, FetchBounds, fetch_on
from odradek.client.errors import ClientClosed, ConnectionFailed, raise_for
from odradek.client.results import ListedOffset
from odradek.foundation.errors import UnknownTopicOrPartition, UnsupportedVersion
from odradek.foundation.ids import TopicPartition
from odradek.network.network import Network, SystemNetwork
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.segment_starts import time_of_offset

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

LATEST_TIME: Final = -1
EARLIEST_TIME: Final = -2
LIST_OFFSETS_VERSIONS: Final = (1, 10)
# Brokers from Kafka 4.0 on do not have it.
OFFSET_LISTS_VERSION: Final = 0
_HEAD: Final = Struct(">iih")
_ROW: Final = Struct(">iiqi")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ANSWER: Final = Struct(">iihi")
# A broker answers a consumer that names no replica.
_CONSUMER: Final = -1


class FetchRequest(NamedTuple):
    """Messages to read: from `offset` on, at most about `max_size` bytes. A larger message comes whole all the same, if
    it is the first of the request (KIP-74).
    """

    topic: str
    partition: int
    offset: int
    max_size: int = 1024 * 1024


class SimpleConsumer:
    """`async with SimpleConsumer("127.0.0.1", 9092) as consumer: messages = await consumer.fetch(request)`.

    `is_read_committed` leaves out aborted transactions and what is still undecided. `properties` may have TLS and a
    login: security.protocol, sasl.* and ssl.*. `network` is for tests.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        so_timeout_ms: int = 30_000,
        client_id: str = "odradek",
        fetch_wait_ms_max: int = 0,
        fetch_bytes_min: int = 1,
        is_read_committed: bool = False,
        properties: Mapping[str, object] | None = None,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidConfigException."""
        if so_timeout_ms <= 0:
            raise InvalidConfigException(f"so_timeout_ms is {so_timeout_ms}; it takes milliseconds from 1 on")
        self._address = Address(host, port)
        self._timeout_ms = so_timeout_ms
        self._client_id = client_id
        self._wait_ms_max = fetch_wait_ms_max
        self._bytes_min = fetch_bytes_min
        self._is_read_committed = is_read_committed
        security = Properties(SIMPLE_CONSUMER, properties or {}).security
        self._network = security.network(network, client_id=client_id) or SystemNetwork()
        self._connection: BrokerConnection | None = None
        self._turn = 0
        self._closed = False

    async def __aenter__(self) -> SimpleConsumer:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> BrokerConnection:
        """The connection, opened if it is not open. Raises ConnectionFailed, ClientTimeout, ClientClosed."""
        if self._closed:
            raise ClientClosed("this SimpleConsumer is closed; make another")
        if self._connection is None or not self._connection.is_open:
            if self._connection is not None:
                await self._connection.close()
            self._connection = await BrokerConnection.open(
                self._address,
                network=self._network,
                client_id=self._client_id,
                connect_timeout_ms=self._timeout_ms,
                request_timeout_ms=self._timeout_ms,
            )
        return self._connection

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            await self._connection.close()

    async def fetch(self, request: FetchRequest) -> ByteBufferMessageSet:
        """The messages from one offset on. Raises OutOfRangeException, NotLeaderOrFollower, …"""
        (messages,) = await self.multifetch([request])
        if messages.error is not None:
            raise messages.error
        return messages

    async def multifetch(self, requests: Sequence[FetchRequest]) -> list[ByteBufferMessageSet]:
        """One message set for each request, in their order, by one Fetch. A partition's error is raised when its set is
        iterated, and is its `error`. Raises ValueError for a partition that is named twice.

        The broker serves partitions in the order of the Fetch until its size limit, which is the sum of all sizes. The
        order is turned with each call, so that none of them starves.
        """
        if not requests:
            return []
        wanted = {TopicPartition(one.topic, one.partition): one for one in requests}
        if len(wanted) != len(requests):
            raise ValueError("multifetch has a partition twice; send a request for each partition")
        self._turn = (self._turn + 1) % len(requests)
        turned = [*list(wanted)[self._turn :], *list(wanted)[: self._turn]]
        answers = await fetch_on(
            await self.connect(),
            {key: wanted[key].offset for key in turned},
            leader_epochs=dict.fromkeys(turned, -1),
            bounds=FetchBounds(
                bytes_min=self._bytes_min,
                wait_ms_max=self._wait_ms_max,
                bytes_max=min(sum(one.max_size for one in requests), 2**31 - 1),
            ),
            sizes={key: wanted[key].max_size for key in turned},
            is_read_committed=self._is_read_committed,
            timeout_ms=self._timeout_ms + self._wait_ms_max,
        )
        return [
            ByteBufferMessageSet(
                key, one.offset, answers.get(key) or _no_answer(key), fetch_size=one.max_size
            )
            for key, one in wanted.items()
        ]

    async def get_offsets_before(
        self, topic: str, partition: int, time: int, max_num_offsets: int = 1
    ) -> list[int]:
        """Up to `max_num_offsets` offsets, descending. `time` is in milliseconds, or LATEST_TIME, EARLIEST_TIME.

        They are the starts of segments whose newest message is not younger than `time`. The end of the log comes first
        where `time` is not in the past. LATEST_TIME begins at the end, EARLIEST_TIME gives the start of the log.

        Apache Kafka from 4.0 on reports no segments. There is one offset then, of the first message that is as young as
        `time` or younger (the end of the log without one). The start of the log follows it if more are asked for.
        """
        if max_num_offsets < 1:
            raise ValueError(f"max_num_offsets is {max_num_offsets}; it has to be at least 1")
        connection = await self.connect()
        key = TopicPartition(topic, partition)
        if connection.offers_version(ApiKey.LIST_OFFSETS, OFFSET_LISTS_VERSION):
            return await _ask_offset_list(connection, key, time, max_num_offsets)
        try:
            return await self._find_segment_starts(connection, key, time, max_num_offsets)
        except UnsupportedVersion:
            return await self._find_by_time(connection, key, time, max_num_offsets)

    async def _find_segment_starts(
        self, connection: BrokerConnection, key: TopicPartition, time: int, max_num_offsets: int
    ) -> list[int]:
        """As version 0 answers it. Raises UnsupportedVersion where the broker does not report segments."""
        if time == EARLIEST_TIME:
            return [(await self._list_offset(connection, key, EARLIEST_TIME)).offset]
        end = (await self._list_offset(connection, key, LATEST_TIME)).offset
        is_all = time == LATEST_TIME
        offsets = [end] if is_all or time >= time_ns() // 1_000_000 else []
        before = end
        while len(offsets) < max_num_offsets:
            found = await self._list_offset(connection, key, time_of_offset(before))
            if found.offset < 0:
                break
            before = found.offset
            if is_all or offsets or found.timestamp_ms <= time:
                offsets.append(before)
        return offsets

    async def _find_by_time(
        self, connection: BrokerConnection, key: TopicPartition, time: int, max_num_offsets: int
    ) -> list[int]:
        first = (await self._list_offset(connection, key, time)).offset
        if first < 0:
            first = (await self._list_offset(connection, key, LATEST_TIME)).offset
        offsets = [first]
        if max_num_offsets > 1 and time != EARLIEST_TIME:
            start = (await self._list_offset(connection, key, EARLIEST_TIME)).offset
            offsets += [start] * (start != first)
        return offsets

    async def _list_offset(
        self, connection: BrokerConnection, key: TopicPartition, time: int
    ) -> ListedOffset:
        response: AnyMessage = await connection.request(
            ApiKey.LIST_OFFSETS,
            versions=LIST_OFFSETS_VERSIONS,
            replica_id=_CONSUMER,
            isolation_level=int(self._is_read_committed),
            topics=[
                {
                    "name": key.topic,
                    "partitions": [
                        {"partition_index": key.partition, "current_leader_epoch": -1, "timestamp": time}
                    ],
                }
            ],
            timeout=self._timeout_ms,
        )
        answer = response.topics[0].partitions[0]
        raise_for(answer.error_code, about=f"partition {key}")
        return ListedOffset(int(answer.offset), int(answer.timestamp), -1)


def _no_answer(key: TopicPartition) -> CompletedFetch:
    failure = UnknownTopicOrPartition(f"partition {key}: the broker's answer leaves it out")
    return CompletedFetch(failure, memoryview(b""), (), -1, -1, -1)


async def _ask_offset_list(
    connection: BrokerConnection, partition: TopicPartition, time: int, max_num_offsets: int
) -> list[int]:
    """The offsets of one partition, descending, by ListOffsets version 0: the one that answers with several offsets.
    The schemas of today leave it out, so its few bytes are packed here:

        request   replica_id int32, [topic string, [partition int32, time int64, max_num_offsets int32]]
        answer    [topic string, [partition int32, error_code int16, [offset int64]]]

    Raises the partition's error, ConnectionFailed, ClientTimeout.
    """
    name = partition.topic.encode()
    body = (
        _HEAD.pack(_CONSUMER, 1, len(name)) + name + _ROW.pack(1, partition.partition, time, max_num_offsets)
    )
    frame = await connection.request_bytes(ApiKey.LIST_OFFSETS, OFFSET_LISTS_VERSION, body)
    try:
        code, offsets = _parse_offsets(frame)
    except error as failure:
        raise ConnectionFailed(
            f"{connection.address} sent {len(frame)} bytes that are no list of offsets"
        ) from failure
    raise_for(code, about=f"partition {partition}")
    return offsets


def _parse_offsets(body: memoryview) -> tuple[int, list[int]]:
    """The error code and the offsets of an answer for one partition."""
    (name_bytes,) = _INT16.unpack_from(body, _INT32.size)
    position = _INT32.size + _INT16.size + name_bytes
    _, _, code, count = _ANSWER.unpack_from(body, position)
    if not 0 <= count <= len(body):
        raise error("a wrong number of offsets")
    return code, list(Struct(f">{count}q").unpack_from(body, position + _ANSWER.size))
