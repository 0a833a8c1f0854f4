"""The client against a running broker: what it writes it reads, alone and in groups, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST, MAX_TIMESTAMP
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import fetch_on
from odradek.client.consumer.group import GroupConsumer
from odradek.client.consumer.oldest import timestamps_at
from odradek.client.producer.producer import Producer
from odradek.client.results import (
    AlterOperation,
    CommittedOffset,
    ConfigChange,
    ConfigSource,
    CreatedTopic,
    ResourceType,
    TopicSpec,
)
from odradek.foundation import errors
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.compression import Compression
from tests.client.support import with_client
from tests.support.peers import Peer

pytestmark = pytest.mark.integration

T = TypeVar("T")


async def read_all(client: Client, topic: str, partitions: int, count: int) -> list[ConsumerRecord]:
    """The first `count` records of a topic."""
    seen: list[ConsumerRecord] = []
    async with PartitionConsumer(client) as consumer:
        consumer.assign({TopicPartition(topic, number): 0 for number in range(partitions)})
        while len(seen) < count:
            seen += await consumer.poll(timeout_ms=10_000)
    return seen


@pytest.mark.parametrize("compression", list(Compression))
@with_client
async def test_records_come_back_as_they_were_sent(
    client: Client, unique: str, compression: Compression
) -> None:
    headers = (("a", b"1"), ("a", None), ("ü", b"\xff"))
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, compression=compression) as producer:
        await producer.send(unique, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_000)
        await producer.send(unique, None, key=b"key")
        last = await producer.send(unique, b"x" * 100_000)
        metadata = await last
    assert metadata.offset == 2
    records = await read_all(client, unique, 1, 3)
    assert (records[0].key, records[0].value, records[0].headers) == (b"key", b"value", headers)
    assert records[0].timestamp_ms == 1_700_000_000_000
    assert records[1].value is None
    assert records[2].value == b"x" * 100_000


@with_client
async def test_keys_keep_their_order_and_all_records_arrive_once(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=4)
    async with Producer(client, batch_bytes_max=2_000, linger_ms=1) as producer:
        for number in range(5_000):
            await producer.send(unique, b"%d" % number, key=b"k%d" % (number % 50))
    records = await read_all(client, unique, 4, 5_000)
    assert len(records) == 5_000
    by_key: dict[bytes | None, list[int]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert all(values == sorted(values) for values in by_key.values())
    assert sorted(value for values in by_key.values() for value in values) == list(range(5_000))


@with_client
async def test_a_producer_without_acknowledgements_sends_too(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, acks=0) as producer:
        delivery = await producer.send(unique, b"v")
        assert (await delivery).offset == -1
    assert [record.value for record in await read_all(client, unique, 1, 1)] == [b"v"]


@with_client
async def test_a_producer_continues_with_another_epoch_after_a_record_expired(
    client: Client, unique: str
) -> None:
    """So that the broker refuses what was given up, should it come late, and does not write it behind what follows."""
    await Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "2000"})
    producer = Producer(client, linger_ms=0)
    await producer.start()
    await (await producer.send(unique, b"first"))
    [before] = await Admin(client).logs.describe_producers(TopicPartition(unique, 0))
    with pytest.raises(errors.RecordTooLarge):
        await (await producer.send(unique, b"x" * 5_000))
    assert (await (await producer.send(unique, b"third"))).offset == 1
    [after] = await Admin(client).logs.describe_producers(TopicPartition(unique, 0))
    assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch + 1)
    await producer.close(is_flushing=False)


@with_client
async def test_a_record_that_is_too_large_fails_alone(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "2000"})
    producer = Producer(client, linger_ms=0)
    await producer.start()
    bad = await producer.send(unique, b"x" * 5_000)
    with pytest.raises(errors.RecordTooLarge):
        await bad
    with pytest.raises(errors.RecordTooLarge):
        await producer.flush()
    good = await producer.send(unique, b"fits")
    assert (await good).offset == 0
    await producer.close()


@with_client
async def test_topics_live_their_life(client: Client, unique: str) -> None:
    topics = Admin(client).topics
    outcome = await topics.create_many(
        [TopicSpec(unique, partitions=2, configs={"retention.ms": "1000"}), TopicSpec("not/allowed")]
    )
    made = outcome[unique]
    assert isinstance(made, CreatedTopic)
    assert made.partitions == 2
    assert isinstance(outcome["not/allowed"], errors.InvalidTopic)
    with pytest.raises(errors.TopicAlreadyExists):
        await topics.create(unique)
    await topics.create_partitions(unique, total=5)
    assert len((await topics.describe(unique)).partitions) == 5
    with pytest.raises(errors.InvalidPartitions):
        await topics.create_partitions(unique, total=2)
    assert unique in [topic.name for topic in await topics.list()]
    await topics.delete(unique)
    with pytest.raises(errors.UnknownTopicOrPartition):
        await topics.delete(unique)
    with pytest.raises(errors.UnknownTopicOrPartition, match="there is no topic"):
        await topics.describe(unique)


@with_client
async def test_configs_are_set_and_unset(client: Client, unique: str) -> None:
    admin = Admin(client)
    await admin.topics.create(unique)

    async def retention() -> tuple[str | None, ConfigSource]:
        (entry,) = await admin.configs.describe(ResourceType.TOPIC, unique, keys=["retention.ms"])
        return entry.value, entry.source

    before = await retention()
    assert before[1] is not ConfigSource.TOPIC
    await admin.configs.alter(ResourceType.TOPIC, unique, [ConfigChange("retention.ms", "1234")])
    assert await retention() == ("1234", ConfigSource.TOPIC)
    change = ConfigChange("retention.ms", None, AlterOperation.DELETE)
    await admin.configs.alter(ResourceType.TOPIC, unique, [change])
    assert await retention() == before
    with pytest.raises(errors.InvalidConfig):
        await admin.configs.alter(ResourceType.TOPIC, unique, [ConfigChange("retention.ms", "soon")])
    with pytest.raises(errors.UnknownTopicOrPartition):
        await admin.configs.describe(ResourceType.TOPIC, unique + "-not-there")


@with_client
async def test_offsets_are_found_by_time_and_records_deleted(client: Client, unique: str) -> None:
    key = TopicPartition(unique, 0)
    admin = Admin(client)
    await admin.topics.create(unique, partitions=1)
    now_ms = 1_700_000_000_000
    await admin.configs.alter(ResourceType.TOPIC, unique, [ConfigChange("retention.ms", "-1")])
    async with Producer(client) as producer:
        for number in range(10):
            await producer.send(unique, b"v", timestamp_ms=now_ms + number * 10)

    async def offset(timestamp_ms: int) -> int:
        return (await admin.logs.list_offsets({key: timestamp_ms}))[key].offset

    assert [await offset(t) for t in (EARLIEST, LATEST, MAX_TIMESTAMP)] == [0, 10, 9]
    assert [await offset(now_ms + t) for t in (-5, 0, 1, 90, 91)] == [0, 0, 1, 9, -1]
    assert await timestamps_at(client, {key: 4}) == {key: now_ms + 40}
    assert await admin.logs.delete_records({key: 4}) == {key: 4}
    assert await offset(EARLIEST) == 4
    async with PartitionConsumer(client) as consumer:
        consumer.assign({key: 1})
        with pytest.raises(errors.OffsetOutOfRange, match="does not hold offset 1"):
            await consumer.poll(timeout_ms=10_000)
    async with PartitionConsumer(client, on_out_of_range="earliest") as consumer:
        consumer.assign({key: 1})
        assert (await consumer.poll(timeout_ms=10_000))[0].offset == 4
    (producer_state,) = await admin.logs.describe_producers(key)
    assert producer_state.last_sequence == 9
    sizes = [d.replicas[key].size_bytes for d in await admin.logs.describe_log_dirs() if key in d.replicas]
    assert sizes and sizes[0] > 0
    assert (await admin.logs.describe_cluster()).cluster_id == client.cluster.cluster_id


@with_client
async def test_two_members_share_a_topic_and_one_takes_over(client: Client, unique: str) -> None:
    admin = Admin(client)
    await admin.topics.create(unique, partitions=4)
    async with Producer(client) as producer:
        for number in range(400):
            await producer.send(unique, b"%d" % number, partition=number % 4)
    options: dict[str, Any] = {"on_no_offset": "earliest", "heartbeat_interval_ms": 100}
    seen: list[bytes | None] = []

    async def drain(consumer: GroupConsumer, is_done: Callable[[], bool]) -> None:
        while not is_done():
            seen.extend(record.value for record in await consumer.poll(records_max=10, timeout_ms=100))
            await consumer.commit()

    async with GroupConsumer(client, unique, [unique], **options) as first:
        await drain(first, lambda: len(first.assignment) == 4)
        async with GroupConsumer(client, unique, [unique], **options) as second:

            def is_shared() -> bool:
                return len(first.assignment) == len(second.assignment) == 2

            await asyncio.gather(drain(first, is_shared), drain(second, is_shared))
            assert set(first.assignment).isdisjoint(second.assignment)
            described = await admin.groups.describe(unique)
            assert described.state == "Stable"
            assert sorted(len(member.assignment) for member in described.members) == [2, 2]
        await drain(first, lambda: len(first.assignment) == 4 and len(seen) >= 400)
    assert sorted(int(value or b"") for value in seen) == list(range(400))
    committed = await admin.groups.offsets(unique)
    assert {key.partition: found.offset for key, found in committed.items()} == dict.fromkeys(range(4), 100)


@with_client
async def test_a_group_is_reset_and_deleted_only_without_members(client: Client, unique: str) -> None:
    key = TopicPartition(unique, 0)
    admin = Admin(client)
    await admin.topics.create(unique, partitions=1)
    async with GroupConsumer(client, unique, [unique]) as consumer:
        await consumer.poll(timeout_ms=1)
        with pytest.raises(errors.NonEmptyGroup):
            await admin.groups.alter_offsets(unique, {key: CommittedOffset(0)})
        with pytest.raises(errors.NonEmptyGroup):
            await admin.groups.delete(unique)
    await admin.groups.alter_offsets(unique, {key: CommittedOffset(0, metadata="kept")})
    assert (await admin.groups.offsets(unique))[key] == CommittedOffset(0, metadata="kept")
    assert unique in [group.group_id for group in await admin.groups.list()]
    await admin.groups.delete_offsets(unique, [key])
    assert await admin.groups.offsets(unique) == {}
    await admin.groups.alter_offsets(unique, {key: CommittedOffset(0)})
    await admin.groups.delete(unique)
    with pytest.raises(errors.GroupIdNotFound):
        await admin.groups.describe(unique)


@with_client
async def test_a_fetch_that_the_broker_failed_on_is_made_again(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client) as producer:
        await producer.send_and_wait(unique, b"a")
    left = ["the first fetch"]

    async def fetch(*arguments: Any, **more: Any) -> Any:
        if left:
            left.pop()
            raise errors.UnknownServerError("the broker failed unexpectedly")
        return await fetch_on(*arguments, **more)

    with patch("odradek.client.consumer.consumer.fetch_on", fetch):
        consumer = PartitionConsumer(client)
        consumer.assign({TopicPartition(unique, 0): 0})
        records: list[ConsumerRecord] = []
        while not records:
            records = await consumer.poll(timeout_ms=500)
        await consumer.close()
    assert [record.value for record in records] == [b"a"] and not left


@with_client
async def test_producer_and_consumer_live_through_a_restart(
    client: Client, broker: Peer, unique: str
) -> None:
    await Admin(client).topics.create(unique, partitions=2)
    async with Producer(client, linger_ms=1) as producer:
        for number in range(100):
            await producer.send(unique, b"%d" % number, key=b"%d" % number)
        await producer.flush()
        restarting = asyncio.create_task(asyncio.to_thread(broker.restart))
        for number in range(100, 300):
            await producer.send(unique, b"%d" % number, key=b"%d" % number)
            await asyncio.sleep(0.002)
        await restarting
        await producer.flush()
    records = await read_all(client, unique, 2, 300)
    assert sorted(int(record.value or b"") for record in records) == list(range(300))
