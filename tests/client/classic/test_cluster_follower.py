"""A producer sees new partitions and new brokers: by ZooKeeper's watches, or by the age of its metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from odradek import Client
from odradek.classic import FetchRequest, KeyedMessage, Producer, RandomPartitioner, SimpleConsumer, aio
from odradek.client.classic.cluster_follower import ClusterFollower
from odradek.client.classic.properties import PRODUCER, Properties
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.peers import topic_creator
from tests.support.polling import SECONDS_MAX, eventually, wait_until
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running(Cluster(folder, zookeeper.connect, brokers=2, controllers=1)) as cluster:
        yield cluster


def grow(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, PARTITIONS)]).values():
        future.result(SECONDS_MAX)


def filled(cluster: Cluster, topic: str) -> int:
    """How many partitions hold something."""
    count = 0
    for broker in cluster.brokers.values():
        with SimpleConsumer("127.0.0.1", broker.port) as consumer:
            found = consumer.multifetch([FetchRequest(topic, number, 0) for number in range(PARTITIONS)])
            count += sum(one.error is None and bool(one.messages()) for one in found)
    return count


SOURCES = ["zk.connect", "broker.list"]


def properties_of(cluster: Cluster, source: str, kind: str) -> dict[str, object]:
    if source == "zk.connect":
        return {"zk.connect": cluster.connect, "producer.type": kind, "queue.time": 5}
    return {
        "broker.list": cluster.bootstrap,
        "topic.metadata.refresh.interval.ms": 200,
        "producer.type": kind,
        "queue.time": 5,
    }


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_new_partitions_are_written_to(cluster: Cluster, source: str, kind: str) -> None:
    topic = topic_creator(cluster.bootstrap)(2)
    with Producer(properties_of(cluster, source, kind), partitioner=RandomPartitioner()) as producer:
        producer.send(KeyedMessage(topic, b"x", key=b"k"))
        producer.flush()
        grow(cluster, topic)

        def write() -> int:
            producer.send([KeyedMessage(topic, b"x", key=b"k") for _ in range(20)])
            return filled(cluster, topic)

        wait_until("each partition is written to", write, lambda count: count == PARTITIONS)


@in_real_time
async def test_new_partitions_are_written_to_in_asyncio(cluster: Cluster) -> None:
    topic = await asyncio.to_thread(topic_creator(cluster.bootstrap), 2)
    given = properties_of(cluster, "zk.connect", "sync")
    async with aio.Producer(given, partitioner=RandomPartitioner()) as producer:
        await producer.send(KeyedMessage(topic, b"x", key=b"k"))
        await asyncio.to_thread(grow, cluster, topic)

        async def write() -> int:
            await producer.send([KeyedMessage(topic, b"x", key=b"k") for _ in range(20)])
            return await asyncio.to_thread(filled, cluster, topic)

        await eventually("each partition is written to", write, lambda count: count == PARTITIONS)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_brokers_that_come_take_the_place_of_those_that_go(cluster: Cluster, kind: str) -> None:
    """The producer knows nothing of broker 2 when broker 1, which it knows, goes."""
    topic = topic_creator(cluster.bootstrap)(PARTITIONS)
    one, two = cluster.brokers[1], cluster.brokers[2]
    two.stop()
    try:
        with Producer(properties_of(cluster, "zk.connect", kind)) as producer:
            producer.send(KeyedMessage(topic, b"0"))
            producer.flush()
            two.start()

            def write() -> bool:
                producer.send([KeyedMessage(topic, b"x") for _ in range(5)])
                with SimpleConsumer("127.0.0.1", two.port) as consumer:
                    found = consumer.multifetch([FetchRequest(topic, n, 0) for n in range(PARTITIONS)])
                    return any(one.error is None and one.messages() for one in found)

            wait_until("broker 2 is written to", write)
            one.stop()
            producer.send([KeyedMessage(topic, b"y") for _ in range(5)])
            producer.flush()
    finally:
        for broker in (one, two):
            if not broker.is_running:
                broker.start()


async def test_metadata_is_asked_for_by_its_age_and_by_the_registry() -> None:
    clock = asyncio.get_running_loop()
    client = Client("127.0.0.1:1")
    asked: list[float] = []

    async def refresh(names: object) -> None:
        asked.append(clock.time())

    client.refresh = refresh  # type: ignore[assignment,method-assign]
    aged = ClusterFollower(Properties(PRODUCER, {"topic.metadata.refresh.interval.ms": 60_000}), client, None)
    task = asyncio.ensure_future(aged.run())
    start = clock.time()
    await asyncio.sleep(200)
    task.cancel()
    assert [round(one - start) // 60 for one in asked] == [1, 2, 3]
    never = ClusterFollower(Properties(PRODUCER, {"topic.metadata.refresh.interval.ms": -1}), client, None)
    await asyncio.sleep(10_000)
    assert not never.is_due
    always = ClusterFollower(Properties(PRODUCER, {"topic.metadata.refresh.interval.ms": 0}), client, None)
    assert always.is_due
