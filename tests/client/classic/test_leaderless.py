"""The documents' clients while some partitions have no leader: the others are written, owned and read as always."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from odradek import Client
from odradek.classic import (
    ConsumerConnector,
    FetchRequest,
    KafkaStream,
    KeyedMessage,
    Producer,
    SimpleConsumer,
    aio,
)
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

PARTITIONS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running(Cluster(folder, zookeeper.connect, brokers=2, controllers=1)) as cluster:
        yield cluster


class Half:
    """A topic whose partitions on broker 2 have no leader from `lose` to `heal`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = topic_creator(cluster.bootstrap)(PARTITIONS)

    def lose(self) -> None:
        if self.cluster.brokers[2].is_running:
            self.cluster.brokers[2].stop()
        leaders = wait_until("broker 2 leads nothing", self._leaders, lambda found: 2 not in found.values())
        self.led = {number for number, leader in leaders.items() if leader == 1}
        self.leaderless = set(range(PARTITIONS)) - self.led
        assert self.led
        assert self.leaderless

    def _leaders(self) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            async with Client(self.bootstrap) as client:
                topic = (await client.topics([self.topic])).topic(self.topic)
                return {one.partition: one.leader for one in topic.partitions}

        return asyncio.run(ask())

    @property
    def bootstrap(self) -> str:
        return self.cluster.brokers[1].bootstrap

    def heal(self) -> None:
        if not self.cluster.brokers[2].is_running:
            self.cluster.brokers[2].start()

    def stored(self, broker: int = 1) -> dict[int, list[int]]:
        """What the partitions of a broker hold."""
        host, _, port = self.cluster.brokers[broker].bootstrap.rpartition(":")
        with SimpleConsumer(host, int(port)) as consumer:
            numbers = sorted(self.led if broker == 1 else self.leaderless)
            found = consumer.multifetch([FetchRequest(self.topic, number, 0) for number in numbers])
            return {
                number: [int(one.payload or b"") for one in messages]
                for number, messages in zip(numbers, found, strict=True)
            }

    def write(self, partitions: set[int], payload: bytes) -> None:
        with Producer({"broker.list": self.bootstrap}, partitioner=ByNumber()) as producer:
            producer.send([KeyedMessage(self.topic, payload, part_key=number) for number in partitions])


@pytest.fixture
def half(cluster: Cluster) -> Iterator[Half]:
    half = Half(cluster)
    half.lose()
    yield half
    half.heal()


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key


def take(stream: KafkaStream, count: int) -> set[tuple[int, bytes]]:
    return {(one.partition, one.message) for _, one in zip(range(count), stream, strict=False)}


def test_a_new_group_reads_what_has_leaders_and_the_rest_when_it_has(half: Half, unique: str) -> None:
    half.write(half.led, b"before")
    properties = {
        "zk.connect": half.cluster.connect,
        "groupid": unique,
        "autooffset.reset": "smallest",
        "consumer.timeout.ms": 30_000,
    }
    with ConsumerConnector(properties) as connector:
        (stream,) = connector.create_message_streams({half.topic: 1})[half.topic]
        assert {key.partition for key in connector.owned_partitions} == set(range(PARTITIONS))
        assert take(stream, len(half.led)) == {(number, b"before") for number in half.led}
        half.heal()
        half.write(half.leaderless, b"after")
        assert take(stream, len(half.leaderless)) == {(number, b"after") for number in half.leaderless}


def without_keys(topic: str, numbers: range) -> list[KeyedMessage]:
    return [KeyedMessage(topic, b"%d" % number) for number in numbers]


def test_messages_without_a_key_go_to_partitions_with_leaders(half: Half) -> None:
    with Producer({"broker.list": half.bootstrap, "delivery.timeout.ms": 3_000}) as producer:
        for message in without_keys(half.topic, range(30)):
            producer.send(message)
    assert sorted(number for numbers in half.stored().values() for number in numbers) == list(range(30))


def test_messages_without_a_key_leave_a_leader_that_is_lost(cluster: Cluster) -> None:
    half = Half(cluster)
    # The list leads to broker 1, so the producer knows broker 2 from the metadata alone.
    with Producer({"broker.list": half.bootstrap, "delivery.timeout.ms": 60_000}) as producer:
        producer.send(KeyedMessage(half.topic, b"0", key=b"k"))
        half.cluster.brokers[2].kill()
        for message in without_keys(half.topic, range(1, 30)):
            producer.send(message)
    half.lose()
    written = half.stored()
    half.heal()
    assert sorted({number for numbers in written.values() for number in numbers} - {0}) == [*range(1, 30)]


def test_an_asynchronous_producer_writes_what_it_can(half: Half) -> None:
    properties = {"broker.list": half.bootstrap, "producer.type": "async", "batch.size": 10, "queue.time": 10}
    with Producer(properties, partitioner=ByNumber()) as producer:
        for number in range(5 * PARTITIONS):
            producer.send(KeyedMessage(half.topic, b"%d" % number, part_key=number % PARTITIONS))
        expected = {key: [*range(key, 5 * PARTITIONS, PARTITIONS)] for key in half.led}
        wait_until("those with leaders are written", half.stored, lambda found: found == expected)
        half.heal()
    assert producer.failed_count == 0
    expected = {key: [*range(key, 5 * PARTITIONS, PARTITIONS)] for key in half.leaderless}
    assert half.stored(2) == expected


@in_real_time
async def test_tasks_of_one_producer_do_not_wait_for_one_another(half: Half) -> None:
    async with aio.Producer({"broker.list": half.bootstrap}, partitioner=ByNumber()) as producer:
        lost, good = min(half.leaderless), min(half.led)
        waiting = asyncio.ensure_future(producer.send(KeyedMessage(half.topic, b"0", part_key=lost)))
        for number in range(3):
            await producer.send(KeyedMessage(half.topic, b"%d" % number, part_key=good))
        assert not waiting.done()
        await asyncio.to_thread(half.heal)
        await waiting
