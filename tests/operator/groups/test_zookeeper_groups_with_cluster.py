"""A ConsumerGroup resource of consumers that share partitions through ZooKeeper, on a real cluster with ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.classic import ConsumerConnector, KafkaStream, KeyedMessage, Producer
from odradek.client.client import Client
from odradek_operator.gateways.group_values import ExpectedGroup
from odradek_operator.gateways.groups import BrokerGroups
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS
from tests.operator.support.broker_world import BrokerWorld, play
from tests.support.broker_process import free_port
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.polling import eventually
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

PARTITIONS = 3


class ClusterWithAdmin(Cluster):
    """One broker with an admin port, and its controller."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.admin_port = free_port()
        settings = {"offsets.topic.num.partitions": "2", "offsets.topic.replication.factor": "1"}
        super().__init__(folder, zookeeper, brokers=1, controllers=1, settings=settings)
        self.brokers[1].arguments = ["--admin", f"127.0.0.1:{self.admin_port}"]


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[ClusterWithAdmin]:
    cluster = ClusterWithAdmin(tmp_path, zookeeper.connect)
    cluster.start()
    yield cluster
    cluster.close()


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def connector_of(cluster: Cluster, consumer: str) -> ConsumerConnector:
    return ConsumerConnector(
        {
            "zk.connect": cluster.connect,
            "groupid": "billing",
            "consumer.id": consumer,
            "autooffset.reset": "smallest",
            "autocommit.enable": "false",
            "consumer.timeout.ms": 20_000,
        }
    )


def stream_of(connector: ConsumerConnector, topic: str) -> KafkaStream:
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    return stream


def write(cluster: Cluster, topic: str, count: int) -> None:
    with Producer({"broker.list": cluster.bootstrap}, partitioner=ByNumber()) as producer:
        producer.send([KeyedMessage(topic, b"x", part_key=number) for number in range(count)])


async def wait_for_shares(*wanted: tuple[ConsumerConnector, int]) -> None:
    await eventually(
        f"they own {[count for _, count in wanted]} partitions",
        lambda: [len(connector.owned_partitions) for connector, _ in wanted],
        lambda counts: counts == [count for _, count in wanted],
    )


def test_a_resource_shows_owners_and_lag_and_changes_nothing(cluster: ClusterWithAdmin) -> None:
    topic = topic_creator(cluster.bootstrap)(PARTITIONS)
    write(cluster, topic, 30)
    first, second = connector_of(cluster, "a"), connector_of(cluster, "b")

    async def story(world: BrokerWorld) -> None:
        reset = {"id": "one", "to": {"at": "Earliest"}}
        world.make(
            CONSUMER_GROUPS,
            "billing",
            topics=[topic],
            lag={"messages": 3},
            reset=reset,
            deletionPolicy="Delete",
        )
        stream = await asyncio.to_thread(stream_of, first, topic)
        for _ in range(30):
            await asyncio.to_thread(next, stream)
        await asyncio.to_thread(first.commit_offsets)
        await asyncio.to_thread(stream_of, second, topic)
        await wait_for_shares((first, 2), (second, 1))
        await asyncio.to_thread(write, cluster, topic, 4)  # two in partition 0, one in each other
        async with Client(cluster.bootstrap) as client:
            seen, failures = await BrokerGroups(client, world.record_times).describe(
                {"billing": ExpectedGroup(topics=(topic,))}
            )
        assert failures == {}
        assert seen.groups["billing"].is_in_zookeeper
        assert {where.partition: offset for where, offset in seen.groups["billing"].committed.items()} == {
            0: 10,
            1: 10,
            2: 10,
        }

        await world.group("billing")
        status = world.body(CONSUMER_GROUPS, "billing")["status"]
        assert (status["type"], status["state"], status["replicas"]) == ("zookeeper", "Stable", 2)
        assert {one["memberId"]: one["assignment"] for one in status["members"]} == {
            first.consumer_id: [f"{topic}-0", f"{topic}-1"],
            second.consumer_id: [f"{topic}-2"],
        }
        assert (status["lag"]["messages"], status["lag"]["partitionsBehind"]) == (4, PARTITIONS)
        rows = [(row["partition"], row["committed"], row["messages"]) for row in status["partitions"]]
        assert rows == [(0, 10, 2), (1, 10, 1), (2, 10, 1)]
        assert world.condition(CONSUMER_GROUPS, "billing", "LagWithinObjective") == ("False", "Behind")
        assert world.condition(CONSUMER_GROUPS, "billing", "Reset") == ("False", "Refused")

        # The first commits what it was given, and both leave.
        for _ in range(3):
            await asyncio.to_thread(next, stream)
        await asyncio.to_thread(first.commit_offsets)
        for connector in (first, second):
            await asyncio.to_thread(connector.shutdown)
        world.groups._reconciled.clear()
        await world.group("billing")
        status = world.body(CONSUMER_GROUPS, "billing")["status"]
        assert (status["state"], status["replicas"], status["lag"]["messages"]) == ("Empty", 0, 1)
        assert world.condition(CONSUMER_GROUPS, "billing", "LagWithinObjective") == ("True", "Within")

        world.delete(CONSUMER_GROUPS, "billing")
        await world.group("billing")
        assert not world.is_there(CONSUMER_GROUPS, "billing")
        async with world.admin() as admin:
            kept = await admin.groups.offsets("billing")
            assert sum(found.offset for found in kept.values()) == 33

    try:
        play(cluster, story)
    finally:
        first.shutdown()
        second.shutdown()
