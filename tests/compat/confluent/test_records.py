"""confluent-kafka (librdkafka): what is sent comes back, in every compression, and its limits are kept."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS, COMPRESSIONS, SAMPLES, Sample, numbered

pytestmark = pytest.mark.clients


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}})


def reader(
    bootstrap: str, topic: str, partition: int = 0, offset: int = OFFSET_BEGINNING, **more: Any
) -> Consumer:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "check.crcs": True,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer


def read(consumer: Consumer, count: int, seconds_max: float = 30) -> list[Message]:
    """`count` messages, or as many as come before the time is up: the caller compares."""
    found: list[Message] = []
    while len(found) < count:
        batch = consumer.consume(count - len(found), seconds_max)
        if not batch:
            break
        for message in batch:
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
    return found


def as_sample(message: Message) -> Sample:
    return Sample(
        message.key(),
        message.value(),
        tuple(cast("list[tuple[str, bytes | None]]", message.headers() or ())),
        timestamp_ms=message.timestamp()[1],
    )


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_shape_of_record_comes_back(
    bootstrap: str, topic: str, compression: str, idempotent: bool
) -> None:
    sender = producer(bootstrap, compression_type=compression, enable_idempotence=idempotent, linger_ms=20)
    delivered: list[tuple[Any, Message]] = []
    for sample in SAMPLES:
        sender.produce(
            topic,
            key=sample.key,
            value=sample.value,
            headers=list(sample.headers),
            timestamp=sample.timestamp_ms,
            partition=0,
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
    assert sender.flush(30) == 0
    assert [error for error, _ in delivered] == [None] * len(SAMPLES)
    assert [message.offset() for _, message in delivered] == list(range(len(SAMPLES)))
    consumer = reader(bootstrap, topic)
    assert [as_sample(message) for message in read(consumer, len(SAMPLES))] == list(SAMPLES)
    consumer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement_keeps_order(bootstrap: str, topic: str, acks: str) -> None:
    sender = producer(bootstrap, acks=acks, linger_ms=1)
    for value in numbered(5000):
        sender.produce(topic, value, partition=0)
        sender.poll(0)
    assert sender.flush(30) == 0
    consumer = reader(bootstrap, topic)
    assert [message.value() for message in read(consumer, 5000)] == numbered(5000)
    consumer.close()


def test_a_megabyte_passes_and_more_is_refused_by_the_broker(bootstrap: str, topic: str) -> None:
    sender = producer(bootstrap, message_max_bytes=10_000_000)
    outcomes: list[int | None] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error.code() if error else None)

    sender.produce(topic, b"x" * 1_000_000, on_delivery=on_delivery)
    sender.flush(30)
    sender.produce(topic, b"x" * 1_100_000, on_delivery=on_delivery)
    sender.flush(30)
    assert outcomes == [None, KafkaError.MSG_SIZE_TOO_LARGE]
    consumer = reader(bootstrap, topic, fetch_message_max_bytes=1000)
    (message,) = read(consumer, 1)
    assert message.value() == b"x" * 1_000_000
    consumer.close()


def test_a_topic_may_allow_larger_messages(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(max_message_bytes=9_000_000)
    sender = producer(bootstrap, message_max_bytes=10_000_000)
    sender.produce(topic, b"y" * 8_000_000)
    assert sender.flush(30) == 0
    consumer = reader(bootstrap, topic)
    (message,) = read(consumer, 1)
    assert message.value() == b"y" * 8_000_000
    consumer.close()


def test_offsets_are_found_by_time(bootstrap: str, topic: str) -> None:
    sender = producer(bootstrap, linger_ms=0)
    for number in range(10):
        sender.produce(topic, b"%d" % number, timestamp=BASE_TIME_MS + number * 1000, partition=0)
        sender.flush(30)
    consumer = reader(bootstrap, topic)
    asked = [BASE_TIME_MS - 5, BASE_TIME_MS, BASE_TIME_MS + 1, BASE_TIME_MS + 9000, BASE_TIME_MS + 9001]
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, time)], 10)[0].offset for time in asked]
    assert found == [0, 0, 1, 9, -1]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 10)
    consumer.close()


def test_an_unknown_topic_is_created_when_asked_for(bootstrap: str, unique: str) -> None:
    sender = producer(bootstrap)
    sender.produce(unique, b"first")
    assert sender.flush(30) == 0
    consumer = reader(bootstrap, unique)
    (message,) = read(consumer, 1)
    assert message.value() == b"first"
    consumer.close()


def test_an_idempotent_producer_survives_a_crash_of_the_broker(
    restartable: Any, bootstrap: str, topic: str
) -> None:
    sender = producer(bootstrap, enable_idempotence=True, linger_ms=1, message_timeout_ms=60_000)
    consumer = reader(bootstrap, topic)
    failed: list[KafkaError] = []
    sent = numbered(3000)
    for number, value in enumerate(sent):
        sender.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        sender.poll(0)
        if number in (1000, 2000):
            restartable.restart(crash=number == 1000)
    assert sender.flush(60) == 0
    assert failed == []
    assert [message.value() for message in read(consumer, len(sent))] == sent
    consumer.close()
