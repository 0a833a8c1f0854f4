"""SimpleConsumer against a running broker: the offset in every call, and what a call gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from odradek import Client, TopicPartition
from odradek import Producer as ClientProducer
from odradek.classic import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequest,
    KeyedMessage,
    OutOfRangeException,
    Producer,
    SimpleConsumer,
    aio,
)
from odradek.client.admin.logs import LogAdmin
from odradek.errors import ClientClosed, UnknownTopicOrPartition

pytestmark = pytest.mark.integration

CreateTopic = Callable[..., str]


@pytest.fixture
def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


@pytest.fixture
def consumer(address: tuple[str, int]) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(*address) as consumer:
        yield consumer


def write(bootstrap: str, topic: str, *batches: list[bytes], **properties: str) -> None:
    """Each list as a batch of its own, in partition 0."""
    with Producer({"broker.list": bootstrap, **properties}, partitioner=First()) as producer:
        for batch in batches:
            producer.send([KeyedMessage(topic, one, part_key=b"k") for one in batch])


class First:
    def partition(self, key: object, num_partitions: int) -> int:
        return 0


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_fetch_gives_messages_from_the_offset_on(
    bootstrap: str, consumer: SimpleConsumer, topic: str, codec: str
) -> None:
    properties = {"compression.codec": codec}
    write(bootstrap, topic, [b"a", b"b", b"c"], [b"d"], **properties)
    found = consumer.fetch(FetchRequest(topic, 0, 1))
    assert [(one.offset, one.payload) for one in found] == [(1, b"b"), (2, b"c"), (3, b"d")]
    assert [one.payload for one in found] == [b"b", b"c", b"d"]  # it can be iterated again
    assert (found.next_offset, found.high_watermark) == (4, 4)
    assert [*consumer.fetch(FetchRequest(topic, 0, 4))] == []


def test_a_message_set_is_decoded_as_far_as_it_is_read(
    bootstrap: str, consumer: SimpleConsumer, topic: str
) -> None:
    write(bootstrap, topic, [b"a"], [b"b"])
    found = consumer.fetch(FetchRequest(topic, 0, 0))
    data = bytearray(found._answer.data)
    data[-1] ^= 1  # the second batch is damaged
    found._answer = found._answer._replace(data=memoryview(data))
    messages = iter(found)
    assert next(messages).payload == b"a"
    with pytest.raises(Exception, match="was damaged"):
        next(messages)


def test_multifetch_answers_in_the_order_of_its_requests(
    bootstrap: str, consumer: SimpleConsumer, create_topic: CreateTopic
) -> None:
    topics = [create_topic() for _ in range(3)]
    for number, topic in enumerate(topics):
        write(bootstrap, topic, [b"%d" % number] * 2)
    for _ in range(3):  # whichever comes first in the request itself
        found = consumer.multifetch(
            [FetchRequest(topic, 0, number % 2) for number, topic in enumerate(topics)]
        )
        assert [one.partition.topic for one in found] == topics
        assert [len(one.messages()) for one in found] == [2, 1, 2]


def test_an_error_of_one_partition_leaves_the_others(
    bootstrap: str, consumer: SimpleConsumer, topic: str, unique: str
) -> None:
    write(bootstrap, topic, [b"a"])
    good, missing, behind = consumer.multifetch(
        [FetchRequest(topic, 0, 0), FetchRequest(unique, 0, 0), FetchRequest(topic, 9, 0)]
    )
    assert [one.payload for one in good] == [b"a"]
    for each in (missing, behind):
        with pytest.raises(UnknownTopicOrPartition):
            list(each)
    with pytest.raises(OutOfRangeException) as raised:
        consumer.fetch(FetchRequest(topic, 0, 5))
    assert raised.value.partition == (topic, 0)


def test_no_message_is_too_large_to_be_read(bootstrap: str, consumer: SimpleConsumer, topic: str) -> None:
    write(bootstrap, topic, [b"x" * 100_000], [b"y"])
    (first,) = consumer.fetch(FetchRequest(topic, 0, 0, max_size=100))
    assert first.payload == b"x" * 100_000


def test_offsets_before_a_time_descend(bootstrap: str, consumer: SimpleConsumer, topic: str) -> None:
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 5) == [0]
    write(bootstrap, topic, [b"a", b"b", b"c"])
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 1) == [3]
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 5) == [3, 0]
    assert consumer.get_offsets_before(topic, 0, EARLIEST_TIME, 5) == [0]
    second = next(iter(consumer.fetch(FetchRequest(topic, 0, 1)))).timestamp_ms
    assert consumer.get_offsets_before(topic, 0, second - 60_000, 1) == []
    assert consumer.get_offsets_before(topic, 0, second + 60_000, 2) == [3, 0]
    with pytest.raises(ValueError, match="at least 1"):
        consumer.get_offsets_before(topic, 0, LATEST_TIME, 0)


def test_both_faces_read_the_same(bootstrap: str, address: tuple[str, int], topic: str) -> None:
    write(bootstrap, topic, [b"a", b"b"])

    async def main() -> list[bytes | None]:
        async with aio.SimpleConsumer(*address) as consumer:
            with pytest.raises(RuntimeError, match=r"use odradek.classic.aio"):
                SimpleConsumer(*address).fetch(FetchRequest(topic, 0, 0))
            return [one.payload for one in await consumer.fetch(FetchRequest(topic, 0, 0))]

    assert asyncio.run(main()) == [b"a", b"b"]


def test_a_lost_connection_is_opened_again(bootstrap: str, consumer: SimpleConsumer, topic: str) -> None:
    write(bootstrap, topic, [b"a"])
    consumer.fetch(FetchRequest(topic, 0, 0))
    connection = consumer._consumer._connection
    assert connection is not None

    async def lose() -> None:
        await connection.close()

    consumer._loop.run(lose)
    assert [one.payload for one in consumer.fetch(FetchRequest(topic, 0, 0))] == [b"a"]
    consumer.close()
    with pytest.raises((ClientClosed, RuntimeError), match="closed"):
        consumer.fetch(FetchRequest(topic, 0, 0))


def test_each_segment_has_an_offset(
    bootstrap: str, consumer: SimpleConsumer, create_topic: CreateTopic
) -> None:
    """Four messages, of which a segment has room for one, each a minute younger than the one before it."""
    topic = create_topic(segment_bytes=1 << 20)
    now_ms = time.time_ns() // 1_000_000
    times = [now_ms - minutes * 60_000 for minutes in (4, 3, 2, 1)]

    async def write_at() -> None:
        async with Client(bootstrap) as client, ClientProducer(client) as producer:
            for timestamp_ms in times:
                await producer.send_and_wait(topic, b"x" * 700_000, partition=0, timestamp_ms=timestamp_ms)

    asyncio.run(write_at())
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 10) == [4, 3, 2, 1, 0]
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 2) == [4, 3]
    assert consumer.get_offsets_before(topic, 0, times[2], 10) == [2, 1, 0]
    assert consumer.get_offsets_before(topic, 0, times[2] - 1, 1) == [1]
    assert consumer.get_offsets_before(topic, 0, times[0] - 1, 10) == []
    assert consumer.get_offsets_before(topic, 0, now_ms + 60_000, 10) == [4, 3, 2, 1, 0]
    assert consumer.get_offsets_before(topic, 0, EARLIEST_TIME, 10) == [0]

    async def delete() -> None:
        async with Client(bootstrap) as client:
            await LogAdmin(client).delete_records({TopicPartition(topic, 0): 2})

    asyncio.run(delete())
    assert consumer.get_offsets_before(topic, 0, LATEST_TIME, 10) == [4, 3, 2]
