"""One story for each client library: a transaction that commits, one that aborts, and a group that reads and commits.

The folders of `tests/compat` ask each library far more. Here each shows that it is served at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.java import JavaUnavailableError, old_clients_classpath
from tests.support.java_gateway import java_consumer, java_gateway, java_producer, poll
from tests.support.peers import skip_or_fail
from tests.support.polling import SECONDS_MAX

pytestmark = [
    pytest.mark.clients,
    # Of the clients: calls that newer Pythons deprecate, and sockets left to the garbage collector.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

COMMITTED: Final = [b"first", b"second", b"third"]
ABORTED: Final = b"never to be read"

# What a story returns: the values that its group read, and the position that the group then committed.
Told = tuple[list[bytes], int]


def confluent(bootstrap: str, topic: str) -> Told:
    """librdkafka, by confluent-kafka."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS_MAX)
    for values, end in ((COMMITTED, producer.commit_transaction), ([ABORTED], producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, key=b"key")
        producer.flush(SECONDS_MAX)
        end(SECONDS_MAX)
    group = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**group, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        read: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(read) < len(COMMITTED) and time.monotonic() < deadline:
            found = consumer.poll(1)
            if found is not None and found.error() is None:
                read.append(found.value() or b"")
        consumer.commit(asynchronous=False)
        (position,) = consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)
    finally:
        consumer.close()
    return read, position.offset


def kafka_python(bootstrap: str, topic: str) -> Told:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for values, end in ((COMMITTED, producer.commit_transaction), ([ABORTED], producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value, key=b"key")
        producer.flush()
        end()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    try:
        read: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(read) < len(COMMITTED) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                read += [record.value for record in records]
        consumer.commit()
        return read, consumer.committed(TopicPartition(topic, 0)) or 0
    finally:
        consumer.close()


def aiokafka(bootstrap: str, topic: str) -> Told:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def tell() -> Told:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                for value in COMMITTED:
                    await producer.send_and_wait(topic, value, key=b"key")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, ABORTED, key=b"key")
            await producer.abort_transaction()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        async with consumer:
            read = [(await consumer.getone()).value or b"" for _ in COMMITTED]
            await consumer.commit()
            return read, await consumer.committed(TopicPartition(topic, 0)) or 0

    return asyncio.run(asyncio.wait_for(tell(), SECONDS_MAX))


def own(bootstrap: str, topic: str) -> Told:
    """Our client for asyncio."""
    from odradek import Admin, Client, Consumer, Producer

    async def tell() -> Told:
        async with Client(bootstrap) as client:
            async with Producer(client, transactional_id=topic) as producer:
                async with producer.transaction():
                    for value in COMMITTED:
                        await producer.send(topic, value, key=b"key")
                await producer.begin_transaction()
                await producer.send(topic, ABORTED, key=b"key")
                await producer.abort_transaction()
            read = []
            async with Consumer(
                client, topic, group_id=topic, auto_offset_reset="earliest", is_read_committed=True
            ) as consumer:
                async for record in consumer:
                    read.append(record.value or b"")
                    if len(read) == len(COMMITTED):
                        break
                await consumer.commit()
            (offset,) = (await Admin(client).groups.offsets(topic)).values()
            return read, offset.offset

    return asyncio.run(asyncio.wait_for(tell(), SECONDS_MAX))


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka, own])
def test_a_python_client_writes_in_transactions_and_reads_in_a_group(
    client: Callable[[str, str], Told], bootstrap: str, topic: str
) -> None:
    read, position = client(bootstrap, topic)
    assert read == COMMITTED
    # The aborted record and the two markers may lie behind the last record that was read.
    assert len(COMMITTED) <= position <= len(COMMITTED) + 3


@pytest.mark.java
def test_javas_client_writes_in_transactions_and_reads_in_a_group(bootstrap: str, topic: str) -> None:
    """With the jars that PySpark's own Ivy fetches."""
    try:
        with java_gateway(old_clients_classpath()) as jvm:
            read, position = java(jvm, bootstrap, topic)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    assert read == COMMITTED
    assert len(COMMITTED) <= position <= len(COMMITTED) + 3


def java(jvm: Any, bootstrap: str, topic: str) -> Told:
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord
    producer = java_producer(jvm, bootstrap, transactional_id=topic)
    producer.initTransactions()
    for values, end in ((COMMITTED, producer.commitTransaction), ([ABORTED], producer.abortTransaction)):
        producer.beginTransaction()
        for value in values:
            producer.send(record(topic, b"key", value))
        producer.flush()
        end()
    producer.close()
    consumer = java_consumer(jvm, bootstrap, group_id=topic, isolation_level="read_committed")
    consumer.subscribe(jvm.java.util.List.of(topic))
    read: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(read) < len(COMMITTED) and time.monotonic() < deadline:
        read += [found.value() for found in poll(jvm, consumer)]
    consumer.commitSync()
    partition = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    committed = consumer.committed(jvm.java.util.Set.of(partition)).get(partition).offset()
    consumer.close()
    return read, committed
