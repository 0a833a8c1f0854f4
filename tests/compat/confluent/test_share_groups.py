"""confluent-kafka's ShareConsumer on a work queue: what it accepts, releases, rejects and leaves unanswered."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    IllegalStateException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)

from odradek import ConfigChange, ResourceType
from odradek.sync import Admin, Client
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.clients, pytest.mark.thorough]

DEADLINE_SECONDS = 45
QUIET_SECONDS = 2.0


@pytest.fixture
def queue(bootstrap: str, create_topic: CreateTopic) -> str:
    """A topic of one partition, and a group of the same name that reads from its start."""
    topic = create_topic()
    with Client(bootstrap) as client:
        earliest = ConfigChange("share.auto.offset.reset", "earliest")
        Admin(client).configs.alter(ResourceType.GROUP, topic, [earliest])
    return topic


def member(bootstrap: str, queue: str, mode: str = "explicit") -> ShareConsumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": queue, "share.acknowledgement.mode": mode}
    consumer = ShareConsumer(settings)
    consumer.subscribe([queue])
    return consumer


def send(bootstrap: str, queue: str, values: Collection[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(queue, value)
    assert producer.flush(30) == 0


def take(consumer: ShareConsumer, count: int) -> list[Message]:
    """The records of the first poll that has some: `count` of them were sent before it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        messages = consumer.poll(1.0).records()
        assert [message.error() for message in messages] == [None] * len(messages)
        if messages:
            assert len(messages) == count
            return messages
    raise AssertionError(f"no record in {DEADLINE_SECONDS} s")


def commit(consumer: ShareConsumer, queue: str) -> None:
    """The broker takes all answers."""
    assert consumer.commit_sync(30.0) == {TopicPartition(queue, 0): None}


def values(messages: Collection[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def deliveries(messages: Collection[Message]) -> dict[bytes | None, int | None]:
    return {message.value(): message.delivery_count() for message in messages}


def assert_nothing_is_left(bootstrap: str, queue: str) -> None:
    """Another member gets only what is sent after all else was answered."""
    send(bootstrap, queue, [b"the last"])
    with member(bootstrap, queue, "implicit") as consumer:
        assert deliveries(take(consumer, 1)) == {b"the last": 1}


def test_the_next_poll_accepts_what_the_one_before_gave(bootstrap: str, queue: str) -> None:
    with member(bootstrap, queue, "implicit") as consumer:
        for value in numbered(3):
            send(bootstrap, queue, [value])
            assert deliveries(take(consumer, 1)) == {value: 1}
        with pytest.raises(IllegalStateException):
            consumer.acknowledge_offset(queue, 0, 2, AcknowledgeType.RELEASE)
        commit(consumer, queue)
    assert_nothing_is_left(bootstrap, queue)


def test_each_answer_does_what_it_says(bootstrap: str, queue: str) -> None:
    answers = {
        b"done": AcknowledgeType.ACCEPT,
        b"again": AcknowledgeType.RELEASE,
        b"bad": AcknowledgeType.REJECT,
    }
    send(bootstrap, queue, answers)
    with member(bootstrap, queue) as consumer:
        messages = take(consumer, 3)
        assert deliveries(messages) == dict.fromkeys(answers, 1)
        with pytest.raises(IllegalStateException):
            consumer.poll(0.1)  # the records of the last poll have no answers yet
        for message in messages:
            consumer.acknowledge(message, answers[message.value() or b""])
        commit(consumer, queue)
        again = take(consumer, 1)
        assert deliveries(again) == {b"again": 2}
        consumer.acknowledge_offset(queue, 0, again[0].offset() or 0)
        commit(consumer, queue)
        assert consumer.poll(QUIET_SECONDS).is_empty()
    assert_nothing_is_left(bootstrap, queue)


def test_what_a_member_left_unanswered_goes_to_another(bootstrap: str, queue: str) -> None:
    sent = numbered(10)
    send(bootstrap, queue, sent)
    with member(bootstrap, queue) as first:
        messages = take(first, 10)
        for message in messages[:4]:
            first.acknowledge(message)
    with member(bootstrap, queue, "implicit") as second:
        assert deliveries(take(second, 6)) == dict.fromkeys(sent[4:], 2)
        commit(second, queue)
    assert_nothing_is_left(bootstrap, queue)


def test_two_members_share_one_partition(bootstrap: str, queue: str) -> None:
    with member(bootstrap, queue, "implicit") as first, member(bootstrap, queue, "implicit") as second:
        got: list[list[bytes | None]] = [[], []]
        sent: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not all(got) or sum(map(len, got)) < len(sent):
            assert time.monotonic() < deadline, f"got {got} of {sent}"
            if not all(got):
                sent.append(b"%d" % len(sent))
                send(bootstrap, queue, sent[-1:])
            for mine, consumer in zip(got, (first, second), strict=True):
                mine += values(consumer.poll(0.2).records())
        assert sorted(value or b"" for mine in got for value in mine) == sorted(sent)


def test_the_callback_says_what_the_broker_took(bootstrap: str, queue: str) -> None:
    told: list[Any] = []
    with member(bootstrap, queue) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        send(bootstrap, queue, numbered(3))
        for message in take(consumer, 3):
            consumer.acknowledge(message)
        consumer.commit_async()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not told and time.monotonic() < deadline:
            assert consumer.poll(0.2).is_empty()
    assert told == [({TopicPartition(queue, 0): {0, 1, 2}}, None)]
