"""aiokafka: the asyncio client with its own C codec, against the broker."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from tests.support.peers import CreateTopic
from tests.support.polling import eventually
from tests.support.samples import COMPRESSIONS, SAMPLES, Sample, numbered
from tests.support.stories import in_real_time

# It leaves sockets to the garbage collector.
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::ResourceWarning")]


async def read(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        for records in (await consumer.getmany(timeout_ms=1000)).values():
            found.extend(records)
    return found


async def reader(bootstrap: str, topic: str) -> Any:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def can_send(sample: Sample) -> bool:
    """aiokafka refuses a null header value, and a record without key and value."""
    has_content = sample.key is not None or sample.value is not None
    return has_content and all(value is not None for _, value in sample.headers)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("compression", COMPRESSIONS)
@in_real_time
async def test_every_shape_of_record_comes_back(
    bootstrap: str, topic: str, compression: str, idempotent: bool
) -> None:
    samples = [sample for sample in SAMPLES if can_send(sample)]
    sender = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=20,
    )
    await sender.start()
    futures = [
        await sender.send(
            topic,
            sample.value,
            key=sample.key,
            headers=list(sample.headers),
            partition=0,
            timestamp_ms=sample.timestamp_ms,
        )
        for sample in samples
    ]
    assert [(await future).offset for future in futures] == list(range(len(samples)))
    await sender.stop()
    consumer = await reader(bootstrap, topic)
    found = await read(consumer, len(samples))
    await consumer.stop()
    assert [Sample(r.key, r.value, tuple(r.headers), timestamp_ms=r.timestamp) for r in found] == samples


@in_real_time
async def test_a_group_shares_commits_and_goes_on_after_a_restart(
    restartable: Any, bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(2)
    values = numbered(300)

    def member() -> Any:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=unique,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            session_timeout_ms=6000,
        )

    async def send(batch: list[bytes]) -> None:
        sender = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await sender.start()
        for number, value in enumerate(batch):
            await sender.send(topic, value, partition=number % 2)
        await sender.stop()

    await send(values[:100])
    first = member()
    await first.start()
    assert sorted(record.value for record in await read(first, 100)) == values[:100]
    await first.commit()
    second = member()
    await second.start()
    await eventually(
        "each has a partition",
        lambda: [first.assignment(), second.assignment()],
        lambda shares: [len(share) for share in shares] == [1, 1],
    )
    await send(values[100:200])
    got = await asyncio.gather(read(first, 50), read(second, 50))
    assert sorted(record.value for records in got for record in records) == values[100:200]
    await first.commit()
    await second.commit()
    await first.stop()
    await second.stop()
    await asyncio.to_thread(restartable.restart)
    await send(values[200:])
    third = member()
    await third.start()
    assert sorted(record.value for record in await read(third, 100)) == values[200:]
    await third.stop()


@in_real_time
async def test_an_idempotent_producer_survives_a_crash(restartable: Any, bootstrap: str, topic: str) -> None:
    values = numbered(600)
    sender = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=2)
    await sender.start()
    crash = threading.Thread(target=restartable.restart, kwargs={"crash": True})
    futures = []
    for number, value in enumerate(values):
        futures.append(await sender.send(topic, value, partition=0))
        if number == 300:
            crash.start()
            await asyncio.sleep(0.01)
    await asyncio.gather(*futures)
    await asyncio.to_thread(crash.join)
    await sender.stop()
    consumer = await reader(bootstrap, topic)
    assert [record.value for record in await read(consumer, 600)] == values
    await consumer.stop()


@in_real_time
async def test_the_admin_client_works(bootstrap: str, unique: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(unique, num_partitions=2, replication_factor=1)])
    await admin.create_partitions({unique: NewPartitions(4)})
    (described,) = await admin.describe_topics([unique])
    assert len(described["partitions"]) == 4
    assert unique in await admin.list_topics()
    await admin.delete_topics([unique])
    assert unique not in await admin.list_topics()
    await admin.close()
