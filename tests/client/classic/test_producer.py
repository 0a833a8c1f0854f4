"""The documents' producer against a running broker: where messages go, and what becomes of those that cannot."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from odradek.classic import (
    AsyncProducer,
    CallbackHandler,
    FailedToSendMessageException,
    FetchRequest,
    InvalidConfigException,
    InvalidPartitionException,
    KeyedMessage,
    Message,
    MessageSet,
    MessageSizeTooLargeException,
    Producer,
    ProducerData,
    QueueClosedException,
    QueueFullException,
    RandomPartitioner,
    SimpleConsumer,
    StringEncoder,
    SyncProducer,
    aio,
)
from odradek.client.classic.message_queue import MessageQueue
from odradek.client.classic.properties import PRODUCER, Properties
from odradek.client.producer.partitioners import partition_for_key
from odradek.errors import ConnectionFailed
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

CreateTopic = Callable[..., str]


def stored(bootstrap: str, topic: str, partitions: int = 1) -> list[list[bytes | None]]:
    """The payloads of each partition."""
    host, _, port = bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        found = consumer.multifetch([FetchRequest(topic, number, 0) for number in range(partitions)])
        return [[message.payload for message in one] for one in found]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_keys_go_where_every_kafka_client_sends_them(
    bootstrap: str, create_topic: CreateTopic, kind: str
) -> None:
    topic = create_topic(partitions=4)
    keys = [f"key-{number}" for number in range(20)]
    with Producer(
        {"broker.list": f"0:{bootstrap}", "producer.type": kind}, encoder=StringEncoder()
    ) as producer:
        producer.send([KeyedMessage(topic, key, key=key) for key in keys])
        producer.send(ProducerData(topic, ["key-0", "key-0"], key="key-0"))
    expected: list[list[bytes | None]] = [[] for _ in range(4)]
    for key in (*keys, "key-0", "key-0"):
        expected[partition_for_key(key.encode(), 4)].append(key.encode())
    assert stored(bootstrap, topic, 4) == expected


def test_messages_without_a_key_go_to_random_partitions(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    with Producer({"broker.list": bootstrap}) as producer:
        for _ in range(30):
            producer.send(KeyedMessage(topic, b"x"))
    with Producer({"broker.list": bootstrap}, partitioner=RandomPartitioner()) as producer:
        producer.send([KeyedMessage(topic, b"y", key=b"one key") for _ in range(60)])
    counts = [Counter(payloads) for payloads in stored(bootstrap, topic, 3)]
    assert all(count[b"x"] and count[b"y"] for count in counts)


class Modulo:
    def partition(self, key: int, num_partitions: int) -> Any:
        return {-1: -1, -2: num_partitions, -3: None, -4: 0.0, -5: True}.get(key, key % num_partitions)


class Number:
    def to_message(self, data: Any) -> bytes:
        return b"%d" % data


def test_one_message_that_fails_leaves_its_neighbours(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=2)
    with Producer({"broker.list": bootstrap}, encoder=Number(), partitioner=Modulo()) as producer:
        events = [KeyedMessage(topic, number, key=number) for number in (4, -1, 5, -2, -3, -4, -5)]
        events.append(KeyedMessage(topic, "no number", key=6))
        with pytest.raises(FailedToSendMessageException, match="6 of 8 messages") as raised:
            producer.send(events)
        kinds = {event.message: type(failure) for event, failure in raised.value.failures}  # type: ignore[attr-defined]
        assert kinds == dict.fromkeys((-1, -2, -3, -4, -5), InvalidPartitionException) | {
            "no number": TypeError
        }
        with pytest.raises(InvalidPartitionException, match=r"Modulo returned -1 .* partitions 0 to 1"):
            producer.send(events[1])
        with pytest.raises(TypeError):
            producer.send(events[-1])
    assert stored(bootstrap, topic, 2) == [[b"4"], [b"5"]]


def test_what_cannot_be_written_is_raised(bootstrap: str, topic: str) -> None:
    with Producer({"broker.list": bootstrap, "max.message.size": "100"}) as producer:
        with pytest.raises(MessageSizeTooLargeException, match=r"101 bytes; max.message.size is 100"):
            producer.send(KeyedMessage(topic, b"x" * 101))
        with pytest.raises(TypeError, match="StringEncoder"):
            producer.send(KeyedMessage(topic, "text"))
        with pytest.raises(TypeError, match="KeyedMessage"):
            producer.send([b"x"])  # type: ignore[list-item]
    with pytest.raises(QueueClosedException):
        producer.send(KeyedMessage(topic, b"x"))
    with Producer({"broker.list": "127.0.0.1:1"}) as producer, pytest.raises(ConnectionFailed):
        producer.send(KeyedMessage(topic, b"x"))
    assert stored(bootstrap, topic) == [[]]


def test_only_the_named_topics_are_compressed(bootstrap: str, create_topic: CreateTopic) -> None:
    small, plain = create_topic(), create_topic()
    properties = {
        "broker.list": bootstrap,
        "compression.codec": "gzip",
        "compressed.topics": f"{small},other",
    }
    with Producer(properties) as producer:
        producer.send([KeyedMessage(topic, b"x" * 10_000) for topic in (small, plain)])
    host, _, port = bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        sizes = [consumer.fetch(FetchRequest(topic, 0, 0)).size_in_bytes for topic in (small, plain)]
    assert sizes[0] < 1_000 < 10_000 < sizes[1]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "neither"),
        ({"broker.list": "a:1", "zk.connect": "b:2"}, "both"),
        ({"broker.list": "a:1", "batch.sise": "1"}, "did you mean batch.size"),
        ({"broker.list": "a:1", "queue.size": "0"}, "at least 1"),
        ({"broker.list": "a:1", "queue.size": "2", "queue.buffering.max.messages": "3"}, "two values"),
        ({"broker.list": "a:1", "producer.type": "both"}, "sync, async"),
        ({"broker.list": "a:1", "compression.codec": "zip"}, "gzip"),
    ],
)
def test_properties_that_cannot_be_are_refused(properties: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfigException, match=words):
        Producer(properties)


def test_both_spellings_and_the_later_defaults_hold() -> None:
    with Producer({"metadata.broker.list": "a:1", "queue.time": 7}) as producer:
        values = producer.properties
    assert (values["queue.buffering.max.ms"], values["queue.buffering.max.messages"]) == (7, 10_000)
    assert (values["batch.num.messages"], values["request.required.acks"]) == (200, -1)
    assert values["queue.enqueue.timeout.ms"] == -1


class Held:
    """An event handler that keeps what it gets, once it may."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.batches: list[list[Any]] = []
        self.is_closed = False
        self.failure: Exception | None = None

    def handle(self, events: Sequence[KeyedMessage]) -> None:
        assert self.may_go_on.wait(30)
        self.batches.append([event.message for event in events])
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self.is_closed = True


def queued(held: Held, callbacks: CallbackHandler | None = None, **properties: object) -> Producer:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return Producer({"producer.type": "async", **given}, event_handler=held, callback_handler=callbacks)


def test_a_batch_is_sent_when_it_is_full_or_old(unique: str) -> None:
    held = Held()
    held.may_go_on.set()
    producer = queued(held, batch_size=3, queue_time=3_600_000)
    producer.send([KeyedMessage(unique, number) for number in range(7)])
    producer.flush()
    assert held.batches == [[0, 1, 2], [3, 4, 5], [6]]
    producer.close()
    assert held.is_closed
    held = Held()
    held.may_go_on.set()
    with queued(held, batch_size=100, queue_time=1) as producer:
        producer.send(KeyedMessage(unique, 0))
        while not held.batches:
            threading.Event().wait(0.01)
    assert held.batches == [[0]]


def test_a_full_queue_is_due_although_a_batch_would_take_more(unique: str) -> None:
    properties = Properties(PRODUCER, {"broker.list": "a:1", "queue.size": 2, "batch.size": 3})
    queue = MessageQueue(properties, lambda: 0.0)
    assert queue.add(KeyedMessage(unique, 0))
    assert queue.seconds_until_due() == 5.0
    assert queue.add(KeyedMessage(unique, 1))
    assert queue.seconds_until_due() == 0.0


def test_a_full_queue_refuses_at_once_or_waits(unique: str) -> None:
    held = Held()
    producer = queued(held, queue_size=2, batch_size=1, queue_enqueueTimeout_ms=0)
    taken: list[int] = []
    with pytest.raises(QueueFullException, match="full with 2 messages"):
        for number in range(5):
            producer.send(KeyedMessage(unique, number))
            taken.append(number)
    held.may_go_on.set()
    producer.close()
    assert [one for batch in held.batches for one in batch] == taken
    with pytest.raises(QueueClosedException):
        producer.send(KeyedMessage(unique, 9))
    held = Held()
    waiting = queued(held, queue_size=2, batch_size=1, queue_enqueueTimeout_ms=-1)
    threading.Timer(0.2, held.may_go_on.set).start()
    for number in range(50):
        waiting.send(KeyedMessage(unique, number))
    waiting.close()
    assert [one for batch in held.batches for one in batch] == list(range(50))


def test_what_the_thread_cannot_send_is_raised_later(unique: str) -> None:
    held = Held()
    held.may_go_on.set()
    held.failure = ConnectionError("no broker")
    producer = queued(held, batch_size=2)
    producer.send([KeyedMessage(unique, number) for number in range(2)])
    with pytest.raises(FailedToSendMessageException, match=r"2 messages .* no broker") as raised:
        producer.flush()
    assert [event.message for event, _ in raised.value.failures] == [0, 1]  # type: ignore[attr-defined]
    producer.flush()  # it is raised once
    producer.send(KeyedMessage(unique, 2))
    with pytest.raises(FailedToSendMessageException, match="1 messages"):
        producer.close()
    assert producer.failed_count == 3


class Stages(CallbackHandler):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_enqueue(self, data: KeyedMessage) -> KeyedMessage:
        self.seen.append("before")
        return KeyedMessage(data.topic, data.message * 10)

    def after_enqueue(self, data: KeyedMessage, added: bool) -> None:
        self.seen.append(f"after {added}")

    def after_dequeuing_existing_data(self, data: KeyedMessage | None) -> Sequence[KeyedMessage]:
        return () if data is None else (data, data)

    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        return list(reversed(data))

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        self.seen.append("last")
        return [KeyedMessage("t", 99)]

    def close(self) -> None:
        self.seen.append("close")


def test_callbacks_see_and_change_every_stage(unique: str) -> None:
    held, stages = Held(), Stages()
    held.may_go_on.set()
    with queued(held, stages, batch_size=2) as producer:
        producer.send([KeyedMessage(unique, 1), KeyedMessage(unique, 2)])
        producer.flush()
    assert stages.seen == ["before", "after True"] * 2 + ["last", "close"]
    assert held.batches == [[20, 20, 10, 10], [99]]


def test_an_asynchronous_producer_outlives_its_broker(restartable: Any, create_topic: CreateTopic) -> None:
    topic = create_topic()
    properties = {"broker.list": restartable.bootstrap, "producer.type": "async", "batch.size": 50}
    with Producer(properties) as producer:
        producer.send([KeyedMessage(topic, b"%d" % number) for number in range(100)])
        producer.flush()
        restartable.restart(crash=True)
        producer.send([KeyedMessage(topic, b"%d" % number) for number in range(100, 200)])
        producer.flush()
    assert stored(restartable.bootstrap, topic) == [[b"%d" % number for number in range(200)]]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_face_for_asyncio_writes_and_raises(bootstrap: str, create_topic: CreateTopic, kind: str) -> None:
    topic = create_topic()
    properties = {
        "broker.list": bootstrap,
        "producer.type": kind,
        "batch.size": 7,
        "queue.size": 20,
        "queue.time": 50,
    }

    async def main() -> None:
        async with aio.Producer(properties) as producer:
            await producer.send([KeyedMessage(topic, b"%d" % number) for number in range(100)])
            with pytest.raises(FailedToSendMessageException, match="StringEncoder"):
                await producer.send([KeyedMessage(topic, "text"), KeyedMessage(topic, b"100")])
                await producer.flush()
            await producer.send(KeyedMessage(topic, b"101"))
            while kind == "async" and producer._queue.finished_count < 103:
                await asyncio.sleep(0.01)  # sent by its age
        with pytest.raises(QueueClosedException):
            await producer.send(KeyedMessage(topic, b"x"))

    asyncio.run(main())
    assert stored(bootstrap, topic) == [[b"%d" % number for number in range(102)]]


@in_real_time
async def test_a_full_queue_in_asyncio_refuses(unique: str) -> None:
    properties = {
        "broker.list": "127.0.0.1:1",
        "producer.type": "async",
        "queue.size": 2,
        "batch.size": 2,
    }
    producer = aio.Producer(properties | {"queue.enqueueTimeout.ms": 0})
    with pytest.raises(QueueFullException):
        await producer.send([KeyedMessage(unique, b"x") for _ in range(5)])
    with pytest.raises(FailedToSendMessageException, match="2 messages"):
        await producer.close()


def test_the_package_loads_no_part_of_a_broker() -> None:
    program = "import sys, odradek.classic; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    parts = ("server", "handlers", "log", "groups", "coordination", "replication", "controller", "testing")
    assert [name for name in loaded if name.startswith(tuple(f"odradek.{part}" for part in parts))] == []
    assert {"kazoo", "aiohttp", "prometheus_client", "click"}.isdisjoint(loaded)


class Wrapping:
    """An encoder whose class a property names; it learns the properties, as in Kafka 0.7."""

    def init(self, properties: Mapping[str, object]) -> None:
        self.mark = str(properties["client.id"]).encode()

    def to_message(self, data: Any) -> Message:
        return Message(self.mark + b":" + str(data).encode())


class Last:
    def partition(self, key: object, num_partitions: int) -> int:
        return num_partitions - 1


class NeedsMore:
    def __init__(self, more: object) -> None:
        self.more = more


def test_properties_name_the_parts_of_a_producer(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=2)
    properties = {"broker.list": bootstrap, "client.id": "me", "serializer.class": f"{__name__}:Wrapping"}
    with Producer({**properties, "partitioner.class": f"{__name__}.Last"}) as producer:
        producer.send(KeyedMessage(topic, 1, part_key=b"k"))
        producer.send(topic, MessageSet(Message(b"as it is"), Message(b"too")))
    with Producer(
        {**properties, "partitioner.class": Last, "key.serializer.class": StringEncoder}
    ) as producer:
        producer.send(KeyedMessage(topic, 2, key=7))
    written = stored(bootstrap, topic, 2)
    assert {b"me:1", b"me:2"} <= set(written[1])
    assert {one for part in written for one in part} == {b"me:1", b"me:2", b"as it is", b"too"}
    asyncio.run(send_in_asyncio(bootstrap, topic))
    assert b"me:3" in stored(bootstrap, topic, 2)[1]


async def send_in_asyncio(bootstrap: str, topic: str) -> None:
    properties = {"broker.list": bootstrap, "client.id": "me", "serializer.class": Wrapping}
    async with aio.Producer({**properties, "partitioner.class": Last}) as producer:
        await producer.send(KeyedMessage(topic, 3, part_key=b"k"))
        await producer.send(topic, [b"4", Message(b"5")])
    with pytest.raises(InvalidConfigException, match=r"callback.handler"):
        aio.Producer({"broker.list": bootstrap, "callback.handler": CallbackHandler})


@pytest.mark.parametrize(
    ("name", "part", "words"),
    [
        ("event.handler", "no.such.Module", r"event.handler is 'no.such.Module', which cannot be imported"),
        ("event.handler", f"{__name__}:Last", "has no method handle"),
        ("callback.handler", "os:sep", "has no method before_enqueue"),
        ("partitioner.class", f"{__name__}:NeedsMore", "cannot be made without arguments"),
        ("serializer.class", "nodots", "cannot be imported"),
    ],
)
def test_a_part_that_cannot_be_is_named(name: str, part: str, words: str) -> None:
    with pytest.raises(InvalidConfigException, match=words):
        Producer({"broker.list": "a:1", name: part})


def test_a_part_is_given_once() -> None:
    with pytest.raises(InvalidConfigException, match="one of them"):
        Producer({"broker.list": "a:1", "partitioner.class": Last}, partitioner=Last())


def test_kafkas_names_of_parts_are_known(bootstrap: str, topic: str) -> None:
    properties = {
        "broker.list": bootstrap,
        "serializer.class": "kafka.serializer.StringEncoder",
        "partitioner.class": "kafka.producer.DefaultPartitioner",
        "event.handler": "kafka.producer.async.DefaultEventHandler",
    }
    with Producer(properties) as producer:
        producer.send(KeyedMessage(topic, "x", key="y"))
    assert stored(bootstrap, topic) == [[b"x"]]


def test_the_two_low_level_producers_choose_partitions_by_number(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=2)
    host, _, port = bootstrap.rpartition(":")
    with SyncProducer({"broker.list": bootstrap}) as producer:
        producer.send(topic, MessageSet(Message(b"a"), Message(b"b")), 1)
        with SimpleConsumer(host, int(port)) as consumer:
            producer.send(
                topic, consumer.fetch(FetchRequest(topic, 1, 0)), 0
            )  # what was fetched is a set too
        with pytest.raises(InvalidPartitionException, match="the program returned 2"):
            producer.send(topic, Message(b"c"), 2)
        with pytest.raises(TypeError, match="Messages, not int"):
            producer.send(topic, [1])  # type: ignore[list-item]
    with AsyncProducer({"broker.list": bootstrap}) as queued_producer:
        queued_producer.send(topic, b"c", 0)
    assert stored(bootstrap, topic, 2) == [[b"a", b"b", b"c"], [b"a", b"b"]]
    with pytest.raises(InvalidConfigException, match="this producer is sync"):
        SyncProducer({"broker.list": bootstrap, "producer.type": "async"})


def test_messages_and_sets_hold_bytes_alone(bootstrap: str, topic: str) -> None:
    assert Message(b"a") == Message(bytearray(b"a"))
    with pytest.raises(TypeError, match="bytes, not str"):
        Message("a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Messages, not bytes"):
        MessageSet(b"a")  # type: ignore[arg-type]
    with Producer({"broker.list": bootstrap}) as producer:
        with pytest.raises(TypeError, match="has no messages"):
            producer.send(topic)
        with pytest.raises(TypeError, match="topic's name alone"):
            producer.send(KeyedMessage(topic, b"x"), [b"y"])
