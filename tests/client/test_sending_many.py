"""Records sent many at a time, batches that a topic finds too large, and how far a producer has come."""

from __future__ import annotations

from typing import TypeVar

import pytest

import odradek.testing
from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.producer.partitioners import partition_for_key
from odradek.client.producer.producer import Producer
from odradek.foundation import errors
from odradek.foundation.ids import TopicPartition
from tests.client.support import run, with_client

pytestmark = pytest.mark.integration

T = TypeVar("T")


async def read(client: Client, topic: str, *, partitions: int, count: int) -> list[ConsumerRecord]:
    seen: list[ConsumerRecord] = []
    async with PartitionConsumer(client) as consumer:
        consumer.assign({TopicPartition(topic, number): 0 for number in range(partitions)})
        while len(seen) < count:
            seen += await consumer.poll(timeout_ms=10_000)
    assert len(seen) == count
    return seen


@with_client
async def test_many_records_arrive_in_order_in_batches_as_large_as_allowed(
    client: Client, unique: str
) -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(20_000)]
    values[7] = None
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, batch_bytes_max=10_000, buffer_bytes_max=200_000) as producer:
        await producer.send_many(unique, values, key=b"k", headers=(("h", b"1"),))
        await producer.send_many(unique, [])
        await producer.flush()
        assert producer.progress == (20_000, 20_000, 20_000)
    found = await read(client, unique, partitions=1, count=20_000)
    assert [record.value for record in found] == values
    assert {(record.key, record.headers) for record in found} == {(b"k", (("h", b"1"),))}


@with_client
async def test_keys_choose_their_partitions_and_keep_their_order(client: Client, unique: str) -> None:
    keys: list[bytes | None] = [
        None if number % 10 == 0 else b"k%d" % (number % 50) for number in range(5_000)
    ]
    values = [b"%d" % number for number in range(5_000)]
    await Admin(client).topics.create(unique, partitions=4)
    async with Producer(client, batch_bytes_max=2_000) as producer:
        await producer.send_many(unique, values, keys=keys)
        with pytest.raises(ValueError, match="there are 1 keys for 2 values"):
            await producer.send_many(unique, [b"a", b"b"], keys=[b"k"])
        with pytest.raises(TypeError, match=r"values\[1\] has to be bytes, not a str"):
            await producer.send_many(unique, [b"a", "b"])  # type: ignore[list-item]
    found = await read(client, unique, partitions=4, count=5_000)
    assert sorted(int(record.value or b"") for record in found) == list(range(5_000))
    for record in found:
        if record.key is not None:
            assert record.partition == partition_for_key(record.key, 4)
    for key in set(keys) - {None}:
        numbers = [int(record.value or b"") for record in found if record.key == key]
        assert numbers == sorted(numbers)
    spread = {record.partition for record in found if record.key is None}
    assert len(spread) > 1  # each batch without keys goes elsewhere


@with_client
async def test_a_batch_that_the_topic_finds_too_large_is_sent_in_parts(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "3000"})
    producer = Producer(client, batch_bytes_max=50_000)
    await producer.start()
    values = [b"%04d" % number * 25 for number in range(1_000)]
    first = await producer.send(unique, b"first")
    await producer.send_many(unique, values[:600])
    among = await producer.send(unique, b"among")
    await producer.send_many(unique, values[600:])
    await producer.flush()
    assert ((await first).offset, (await among).offset) == (0, 601)
    assert producer.progress == (1_002, 1_002, 1_002)
    await producer.close()
    found = await read(client, unique, partitions=1, count=1_002)
    assert [record.value for record in found] == [b"first", *values[:600], b"among", *values[600:]]


@with_client
async def test_progress_names_the_first_record_that_is_lost_in_a_batch_of_many(
    client: Client, unique: str
) -> None:
    await Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "3000"})
    producer = Producer(client, batch_bytes_max=50_000, linger_ms=1_000)
    await producer.start()
    await producer.send_many(unique, [*[b"x" * 100] * 41, b"y" * 5_000, *[b"x" * 100] * 8])
    with pytest.raises(errors.RecordTooLarge):
        await producer.flush()
    assert producer.progress == (50, 49, 41)
    await producer.close()


@with_client
async def test_a_record_too_large_is_refused_and_those_before_it_are_sent(
    client: Client, unique: str
) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    producer = Producer(client, buffer_bytes_max=10_000)
    await producer.start()
    with pytest.raises(errors.RecordTooLarge):
        await producer.send_many(unique, [b"a", b"b", b"x" * 20_000, b"c"])
    await producer.flush()
    assert producer.progress == (2, 2, 2)
    await producer.close()


def test_retries_are_told_with_their_reason() -> None:
    told: list[tuple[TopicPartition, bool, str]] = []

    async def work(client: Client) -> None:
        def note(key: TopicPartition, waited_seconds: float, failure: errors.OdradekError) -> None:
            told.append((key, waited_seconds >= 0, type(failure).__name__))

        async with Producer(client, on_retry=note) as producer:
            await producer.send("refused", b"a")

    with odradek.testing.broker() as broker:
        broker.create_topic("refused")
        broker.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=2)
        run(broker.bootstrap, work)
    assert told == [(TopicPartition("refused", 0), True, "NotEnoughReplicas")] * 2
