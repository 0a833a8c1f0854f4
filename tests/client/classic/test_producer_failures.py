"""What becomes of messages when something fails on their way: brokers, queues, callbacks, forks, topics.

`test_producer` has the rest of the table: encoders, partitioners, large messages, a queue that refuses or waits.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek import LATEST, Admin, Client, Consumer, TopicPartition
from odradek.classic import (
    CallbackHandler,
    FailedToSendMessageException,
    FetchRequest,
    KeyedMessage,
    Producer,
    QueueFullException,
    SimpleConsumer,
)
from odradek.client.errors import ClientTimeout
from odradek.errors import OdradekError
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

CreateTopic = Callable[..., str]


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def messages(topic: str, numbers: Sequence[int]) -> list[KeyedMessage]:
    return [KeyedMessage(topic, b"%d" % number, part_key=number) for number in numbers]


def stored(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        found = consumer.fetch(FetchRequest(topic, partition, 0))
        return [int(message.payload or b"") for message in found]


@pytest.mark.thorough
def test_leaders_and_then_all_brokers_restart_under_both_kinds(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    """Nothing is lost, and nothing is doubled: retries are idempotent."""
    cluster = Cluster(tmp_path, zookeeper.connect, brokers=2, controllers=1)
    cluster.start()
    try:
        topics = [topic_creator(cluster.bootstrap)(2, replicas=2) for _ in range(2)]
        properties: dict[str, object] = {"broker.list": cluster.bootstrap, "delivery.timeout.ms": 120_000}
        queued = {**properties, "producer.type": "async", "batch.size": 20, "queue.time": 20}
        done = threading.Event()
        written = [0, 0]

        def write(index: int) -> None:
            with Producer(queued if index else properties, partitioner=ByNumber()) as producer:
                while not done.is_set():
                    producer.send(messages(topics[index], range(written[index], written[index] + 10)))
                    written[index] += 10
                    time.sleep(0.02)

        threads = [threading.Thread(target=write, args=[index]) for index in range(2)]
        for thread in threads:
            thread.start()

        def wait_for_more() -> None:
            before = list(written)

            def seen() -> list[int]:
                assert all(thread.is_alive() for thread in threads), "a producer gave up"
                return [now - then for now, then in zip(written, before, strict=True)]

            wait_until("both producers write on", seen, lambda more: min(more) >= 20)

        wait_for_more()
        cluster.brokers[1].kill()
        wait_for_more()
        cluster.brokers[1].start()
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        wait_for_more()
        done.set()
        for thread in threads:
            thread.join()
        for index, topic in enumerate(topics):
            assert read_all(cluster, topic) == list(range(written[index]))
    finally:
        cluster.close()


def read_all(cluster: Cluster, topic: str) -> list[int]:
    """All numbers of two partitions; within each they are in order, and there is none twice."""

    async def work() -> list[int]:
        found: dict[int, list[int]] = {0: [], 1: []}
        async with Client(cluster.bootstrap) as client, Consumer(client) as consumer:
            keys = [TopicPartition(topic, number) for number in found]
            ends = await Admin(client).logs.offsets_at(keys, LATEST)
            await consumer.assign(dict.fromkeys(keys, 0))
            while any(consumer.position(key) < ends[key] for key in keys):
                for record in await consumer.poll():
                    found[record.partition].append(int(record.value or b""))
        for number, numbers in found.items():
            assert numbers == sorted(set(numbers)), f"partition {number} is out of order, or doubled"
        return sorted(found[0] + found[1])

    return asyncio.run(work())


class Held:
    """An event handler that waits until it may continue."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.taken: list[Any] = []

    def handle(self, events: Sequence[KeyedMessage]) -> None:
        assert self.may_go_on.wait(30)
        self.taken += [event.message for event in events]

    def close(self) -> None:
        return


def test_a_full_queue_waits_for_its_timeout_and_then_refuses(unique: str) -> None:
    held = Held()
    properties = {"producer.type": "async", "queue.size": 1, "batch.size": 1, "queue.enqueueTimeout.ms": 200}
    producer = Producer(properties, event_handler=held)
    producer.send(KeyedMessage(unique, 0))  # the thread takes it, and waits
    wait_until("the thread has taken it", lambda: producer.waiting_count == 0, pause_seconds=0.005)
    producer.send(KeyedMessage(unique, 1))
    start = time.monotonic()
    with pytest.raises(QueueFullException):
        producer.send(KeyedMessage(unique, 2))
    assert 0.2 <= time.monotonic() - start < 10
    threading.Timer(0.05, held.may_go_on.set).start()
    producer.close()  # with a full queue: all that was taken is sent
    assert held.taken == [0, 1]
    assert producer.failed_count == 0


class Raising(CallbackHandler):
    """Raises at one stage."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def _reach(self, stage: str) -> None:
        if stage == self._stage:
            raise ValueError(f"the callback {stage} failed")

    def before_enqueue(self, data: KeyedMessage) -> KeyedMessage:
        self._reach("before_enqueue")
        return data

    def after_dequeuing_existing_data(self, data: KeyedMessage | None) -> Sequence[KeyedMessage]:
        self._reach("after_dequeuing_existing_data")
        return () if data is None else (data,)

    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        self._reach("before_sending_data")
        return data


def test_a_callback_that_raises_fails_its_messages_and_no_others(unique: str) -> None:
    held = Held()
    held.may_go_on.set()
    producer = Producer(
        {"producer.type": "async"}, event_handler=held, callback_handler=Raising("before_enqueue")
    )
    with pytest.raises(ValueError, match="before_enqueue"):
        producer.send(KeyedMessage(unique, 0))
    producer.close()
    assert (held.taken, producer.failed_count) == ([], 0)
    for stage in ("after_dequeuing_existing_data", "before_sending_data"):
        callbacks = Raising(stage)
        producer = Producer(
            {"producer.type": "async", "batch.size": 2}, event_handler=held, callback_handler=callbacks
        )
        producer.send([KeyedMessage(unique, number) for number in range(2)])
        with pytest.raises(FailedToSendMessageException, match=stage) as raised:
            producer.flush()
        assert [event.message for event, _ in raised.value.failures] == [0, 1]  # type: ignore[attr-defined]
        callbacks._stage = ""
        producer.send([KeyedMessage(unique, number) for number in range(2, 4)])
        producer.close()
        assert (held.taken, producer.failed_count) == ([2, 3], 2)
        held.taken.clear()


FORKING = """
import os, sys
from odradek.classic import KeyedMessage, Producer

bootstrap, topic = sys.argv[1:]
producers = [Producer({"broker.list": bootstrap, "producer.type": kind}) for kind in ("sync", "async")]
for number, producer in enumerate(producers):
    producer.send(KeyedMessage(topic, b"%d" % number))
child = os.fork()
if child == 0:
    for producer in producers:
        try:
            producer.send(KeyedMessage(topic, b"9"))
        except RuntimeError as error:
            print(error, flush=True)
        producer.close()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
for producer in producers:
    producer.send(KeyedMessage(topic, b"5"))
    producer.close()
"""


def test_a_forked_process_has_to_make_its_own(bootstrap: str, topic: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    *refusals, code = done.stdout.splitlines()
    assert (code, done.returncode) == ("0", 0), done.stderr
    assert len(refusals) == 2
    assert all("made before a fork" in line for line in refusals)
    assert sorted(stored(bootstrap, topic)) == [0, 1, 5, 5]


def test_a_topic_that_does_not_exist_is_named(bootstrap: str, create_topic: CreateTopic) -> None:
    """Names that no broker makes by itself."""
    there = create_topic()
    properties: dict[str, object] = {"broker.list": bootstrap, "delivery.timeout.ms": 2_000}
    with Producer(properties) as producer:
        with pytest.raises(FailedToSendMessageException, match="no good/name") as raised:
            producer.send([KeyedMessage("no good/name", b"1"), KeyedMessage(there, b"2")])
        (failed,) = raised.value.failures
        assert isinstance(failed[1], OdradekError | ClientTimeout)
    producer = Producer({**properties, "producer.type": "async"})
    producer.send([KeyedMessage("no good/name", b"3"), KeyedMessage(there, b"4")])
    with pytest.raises(FailedToSendMessageException, match="no good/name"):
        producer.close()
    assert producer.failed_count == 1
    assert stored(bootstrap, there) == [2, 4]


UNCLOSED = {
    "sync": """
producer = Producer({"broker.list": bootstrap})
producer.send(KeyedMessage(topic, b"1"))
""",
    "async": """
producer = Producer({"broker.list": bootstrap, "producer.type": "async", "queue.time": 3_600_000})
producer.send([KeyedMessage(topic, b"1"), KeyedMessage(topic, b"2")])
""",
    "asyncio": """
async def main():
    producer = aio.Producer({"broker.list": bootstrap, "producer.type": "async", "queue.time": 3_600_000})
    await producer.send([KeyedMessage(topic, b"1"), KeyedMessage(topic, b"2")])
asyncio.run(main())
""",
    "simple": """
consumer = SimpleConsumer(*bootstrap.split(":"))
consumer.fetch(FetchRequest(topic, 0, 0))
""",
}
WARNINGS = {
    "sync": "a Producer, whose sent messages are all written, was not closed",
    "async": "waits for what it took: 2 for topic {topic} in the queue",
    "asyncio": "a Producer was not closed, and these are lost: 2 for topic {topic} in the queue",
    "simple": "a SimpleConsumer of 127.0.0.1",
}


@pytest.mark.parametrize("kind", UNCLOSED)
def test_an_unclosed_client_ends_with_one_clear_warning(bootstrap: str, topic: str, kind: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from odradek.classic import FetchRequest, KeyedMessage, Producer, SimpleConsumer, aio\n"
        f"bootstrap, topic = sys.argv[1:]\n{UNCLOSED[kind]}"
    )
    if kind == "simple":
        program = program.replace('*bootstrap.split(":")', '"127.0.0.1", int(bootstrap.split(":")[1])')
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", program, bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert WARNINGS[kind].format(topic=topic) in done.stderr
    assert done.stderr.count("ResourceWarning") == 1, done.stderr
    assert "Task was destroyed" not in done.stderr
    assert stored(bootstrap, topic) == {"sync": [1], "async": [1, 2]}.get(kind, [])
