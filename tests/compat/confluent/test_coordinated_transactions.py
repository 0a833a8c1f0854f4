"""Transactions of confluent-kafka (librdkafka), the first generation: commit, abort, offsets, fencing, timeout."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.support.peers import CreateTopic

pytestmark = pytest.mark.clients

SECONDS_MAX = 30


def transactional(bootstrap: str, name: str, **settings: Any) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    made.init_transactions(SECONDS_MAX)
    return made


def reader(bootstrap: str, topic: str, group: str, level: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
        }
    )
    consumer.subscribe([topic])
    return consumer


def read(bootstrap: str, topic: str, *, level: str = "read_committed", partitions: int = 2) -> list[str]:
    """Everything up to the ends of all partitions, sorted."""
    consumer = reader(bootstrap, topic, f"{topic}-{level}", level)
    values: list[str] = []
    ended: set[int | None] = set()
    for _ in range(600):
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            value = message.value()
            values.append(value.decode() if isinstance(value, bytes) else str(value))
        if len(ended) == partitions:
            break
    consumer.close()
    return sorted(values)


def send(sender: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        sender.produce(topic, value.encode(), partition=number % 2)
    assert sender.flush(SECONDS_MAX) == 0


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    sender = transactional(bootstrap, topic)
    for number in range(6):
        sender.begin_transaction()
        send(sender, topic, f"{number}a", f"{number}b")
        if number % 2:
            sender.abort_transaction(SECONDS_MAX)
        else:
            sender.commit_transaction(SECONDS_MAX)
    assert read(bootstrap, topic) == ["0a", "0b", "2a", "2b", "4a", "4b"]
    assert len(read(bootstrap, topic, level="read_uncommitted")) == 12


def test_a_new_instance_fences_the_old_one_and_aborts_its_transaction(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    old = transactional(bootstrap, topic)
    old.begin_transaction()
    send(old, topic, "of the zombie")
    new = transactional(bootstrap, topic)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(SECONDS_MAX)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    new.begin_transaction()
    send(new, topic, "of the new one")
    new.commit_transaction(SECONDS_MAX)
    assert read(bootstrap, topic) == ["of the new one"]


def test_offsets_are_committed_with_the_records(bootstrap: str, create_topic: CreateTopic) -> None:
    source, target = create_topic(2), create_topic(2)
    sender = transactional(bootstrap, source)
    sender.begin_transaction()
    send(sender, source, "a", "b")
    sender.commit_transaction(SECONDS_MAX)
    consumer = reader(bootstrap, source, source, "read_committed")
    values: list[Any] = []
    while len(values) < 2:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    for outcome in ("abort", "commit"):
        sender.begin_transaction()
        send(sender, target, *(f"{outcome} {value.decode()}" for value in values))
        positions = consumer.position(consumer.assignment())
        sender.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS_MAX)
        if outcome == "abort":
            sender.abort_transaction(SECONDS_MAX)
            assert all(one.offset < 0 for one in consumer.committed(consumer.assignment(), 10))
        else:
            sender.commit_transaction(SECONDS_MAX)
            committed = consumer.committed(consumer.assignment(), 10)
            assert sorted(one.offset for one in committed) == sorted(one.offset for one in positions)
    consumer.close()
    assert read(bootstrap, target) == ["commit a", "commit b"]
