"""confluent-kafka (librdkafka): transactions of records and offsets, with aborts: each record is there exactly once."""

from __future__ import annotations

import random
import threading

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat.confluent.test_records import read, reader
from tests.support.peers import CreateTopic

pytestmark = pytest.mark.clients

COUNT = 2000
SECONDS_MAX = 30.0


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 1}
    )
    producer.init_transactions(SECONDS_MAX)
    return producer


def group_reader(bootstrap: str, topic: str, group: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed, as after an abort."""
    for one in consumer.committed(consumer.assignment(), SECONDS_MAX):
        consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))


def test_a_copy_with_random_aborts_has_each_record_once(bootstrap: str, create_topic: CreateTopic) -> None:
    source, target = create_topic(1), create_topic(2)
    values = [b"%d" % number for number in range(COUNT)]
    plain = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        plain.produce(source, value)
    assert plain.flush(SECONDS_MAX) == 0
    producer = transactional(bootstrap, f"copy-{source}")
    consumer = group_reader(bootstrap, source, f"of-{source}")
    rng = random.Random(1)
    copied = 0
    while copied < COUNT:
        messages = [one for one in consumer.consume(100, 5) if one.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            number = int(message.value() or b"-1")
            producer.produce(target, b"%d" % number, partition=number % 2)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS_MAX
        )
        if rng.random() < 0.3:
            producer.abort_transaction(SECONDS_MAX)
            rewind(consumer)
        else:
            producer.commit_transaction(SECONDS_MAX)
            copied += len(messages)
    consumer.close()
    got = []
    for partition in range(2):
        found = read(reader(bootstrap, target, partition, isolation_level="read_committed"), COUNT // 2)
        got += [one.value() for one in found]
    assert got == [*values[::2], *values[1::2]]


def test_a_reader_of_committed_records_waits_for_the_end(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    producer = transactional(bootstrap, f"wait-{topic}")
    producer.begin_transaction()
    producer.produce(topic, b"first")
    assert producer.flush(SECONDS_MAX) == 0
    uncommitted = reader(bootstrap, topic, isolation_level="read_uncommitted")
    assert [one.value() for one in read(uncommitted, 1)] == [b"first"]
    committed = reader(bootstrap, topic, isolation_level="read_committed")
    assert read(committed, 1, seconds_max=1) == []
    assert committed.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX)[1] == 0
    ended = threading.Timer(0.2, lambda: producer.commit_transaction(SECONDS_MAX))
    ended.start()
    assert [one.value() for one in read(committed, 1)] == [b"first"]
    ended.join()


def test_a_second_instance_fences_the_first(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    first = transactional(bootstrap, f"fence-{topic}")
    first.begin_transaction()
    first.produce(topic, b"lost")
    assert first.flush(SECONDS_MAX) == 0
    second = transactional(bootstrap, f"fence-{topic}")
    with pytest.raises(KafkaException) as failure:
        first.produce(topic, b"late")
        first.commit_transaction(SECONDS_MAX)
    assert failure.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"kept")
    second.commit_transaction(SECONDS_MAX)
    found = read(reader(bootstrap, topic, isolation_level="read_committed"), 1)
    assert [one.value() for one in found] == [b"kept"]
