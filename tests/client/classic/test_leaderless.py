"""The documents' clients while some partitions have no leader: the others are written, owned and read as always."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from odradek import Client
from odradek.classic import ConsumerConnector, KafkaStream, KeyedMessage, Producer
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

PARTITIONS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running(Cluster(folder, zookeeper.connect, brokers=2, controllers=1)) as cluster:
        yield cluster


class Half:
    """A topic whose partitions on broker 2 have no leader until `heal`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = topic_creator(cluster.bootstrap)(PARTITIONS)
        cluster.brokers[2].stop()
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

    def write(self, partitions: set[int], payload: bytes) -> None:
        with Producer({"broker.list": self.bootstrap}, partitioner=ByNumber()) as producer:
            producer.send([KeyedMessage(self.topic, payload, part_key=number) for number in partitions])


@pytest.fixture
def half(cluster: Cluster) -> Iterator[Half]:
    half = Half(cluster)
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
