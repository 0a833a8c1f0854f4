"""Our client and command line against Apache Kafka 1.1.1, whose requests are years older than ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.client.errors import UnsupportedByBroker
from odradek.client.producer.producer import Producer
from odradek.client.results import AlterOperation, CommittedOffset, ConfigChange, ResourceType
from odradek.foundation.errors import UnknownTopicOrPartition, UnsupportedForMessageFormat
from odradek.foundation.ids import TopicPartition
from tests.support.first_kafka import FirstKafka
from tests.support.java import JavaUnavailableError
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstKafka]:
    """One broker for this module."""
    kafka = FirstKafka(tmp_path_factory.mktemp("first-kafka"))
    try:
        kafka.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    yield kafka
    kafka.close()


def run(kafka: FirstKafka, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do `work` with a client and close it; 60 s at most."""

    async def main() -> None:
        async with asyncio.timeout(60), Client(kafka.bootstrap) as client:
            await work(client)

    asyncio.run(main())


def test_topics_are_made_changed_and_deleted(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        topics, configs = Admin(client).topics, Admin(client).configs
        created = await topics.create(unique, configs={"retention.ms": 1000})
        assert (created.partitions, created.replication_factor) == (2, 1)  # the broker's own defaults
        await topics.create_partitions(unique, total=3)
        assert len((await topics.describe(unique)).partitions) == 3
        change = [
            ConfigChange("retention.ms", None, AlterOperation.DELETE),
            ConfigChange("segment.bytes", "100000", AlterOperation.SET),
            ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND),
        ]
        await configs.alter(ResourceType.TOPIC, unique, change)
        values = {entry.name: entry.value for entry in await configs.describe(ResourceType.TOPIC, unique)}
        assert (values["segment.bytes"], values["cleanup.policy"]) == ("100000", "delete,compact")
        assert values["retention.ms"] != "1000"
        await topics.delete(unique)
        with pytest.raises(UnknownTopicOrPartition):
            await topics.delete(unique)

    run(kafka, work)


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4"])
def test_records_are_written_and_read(kafka: FirstKafka, unique: str, compression: str) -> None:
    async def work(client: Client) -> None:
        await Admin(client).topics.create(unique, partitions=1)
        async with Producer(client, compression=compression) as producer:
            await producer.send_many(unique, [b"%d" % number for number in range(100)])
        async with PartitionConsumer(client) as consumer:
            consumer.assign({TopicPartition(unique, 0): 0})
            found: list[bytes | None] = []
            while len(found) < 100:
                found += [record.value for record in await consumer.poll()]
        assert found == [b"%d" % number for number in range(100)]

    run(kafka, work)


def test_a_codec_the_broker_cannot_read_is_refused(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        await Admin(client).topics.create(unique)
        async with Producer(client, compression="zstd") as producer:
            delivery = await producer.send(unique, b"x")
            with pytest.raises(UnsupportedByBroker, match="PRODUCE in the versions 0 to 5"):
                await delivery
            with pytest.raises(UnsupportedByBroker):
                await producer.flush()

    run(kafka, work)


def test_a_topic_of_the_older_format_is_read(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        key = TopicPartition(unique, 0)
        await Admin(client).topics.create(unique, partitions=1, configs={"message.format.version": "0.10.0"})
        for codec in ("gzip", "none"):
            async with Producer(client, is_idempotent=False, compression=codec) as producer:
                await producer.send_many(unique, [b"%d" % number for number in range(10)])
        await Admin(client).configs.alter(
            ResourceType.TOPIC, unique, [ConfigChange("message.format.version", None, AlterOperation.DELETE)]
        )
        await _write_in_the_newest_format(client, unique)
        async with PartitionConsumer(client) as consumer:
            consumer.assign({key: 5})
            found: list[tuple[int, bytes | None]] = []
            while len(found) < 16:
                found += [(record.offset, record.value) for record in await consumer.poll()]
        numbers = [b"%d" % number for number in (*range(5, 10), *range(10))]
        assert found == list(enumerate([*numbers, b"new"], 5))

    run(kafka, work)


async def _write_in_the_newest_format(client: Client, topic: str) -> None:
    """Only that takes an idempotent producer, once the broker has learned of the topic's new setting."""
    while True:
        try:
            async with Producer(client) as producer:
                await producer.send_many(topic, [b"new"])
            return
        except UnsupportedForMessageFormat:
            await asyncio.sleep(0.1)


def test_a_group_reads_commits_and_leaves(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        await Admin(client).topics.create(unique, partitions=1)
        async with Producer(client) as producer:
            await producer.send_many(unique, [b"a", b"b", b"c"])
        async with GroupConsumer(client, unique, [unique], on_no_offset="earliest") as consumer:
            found: list[ConsumerRecord] = []
            while len(found) < 3:
                found += await consumer.poll(records_max=2)
            await consumer.commit()
        groups = Admin(client).groups
        assert unique in [group.group_id for group in await groups.list()]
        assert (await groups.describe(unique)).state == "Empty"
        key = TopicPartition(unique, 0)
        assert (await groups.offsets(unique))[key].offset == 3
        await groups.alter_offsets(unique, {key: CommittedOffset(1, -1)})
        assert (await groups.offsets(unique, [key]))[key].offset == 1

    run(kafka, work)


def test_a_static_member_needs_a_newer_broker(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        async with GroupConsumer(client, unique, [unique], instance_id="one") as consumer:
            with pytest.raises(UnsupportedByBroker, match="JOIN_GROUP"):
                await consumer.poll()

    run(kafka, work)


def test_a_transaction_is_committed(kafka: FirstKafka, unique: str) -> None:
    async def work(client: Client) -> None:
        await Admin(client).topics.create(unique, partitions=1)
        async with Producer(client, transactional_id=unique) as producer:
            async with producer.transaction():
                await producer.send(unique, b"kept")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(unique, b"aborted")
                    raise ZeroDivisionError
        async with PartitionConsumer(client, is_read_committed=True) as consumer:
            consumer.assign({TopicPartition(unique, 0): 0})
            records = await consumer.poll(timeout_ms=10_000)
            records += await consumer.poll(timeout_ms=300)
        assert [record.value for record in records] == [b"kept"]

    run(kafka, work)
