"""A member of a group finds its coordinator again wherever it comes back, and joins again whatever failed."""

from __future__ import annotations

import random

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.client.consumer.group import GroupConsumer
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


async def test_a_coordinator_that_comes_back_at_another_address_is_found() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    bootstrap = ",".join(f"{cluster.host(number)}:{PORT}" for number in (1, 2))
    client = Client(
        bootstrap,
        network=cluster.network.at("client"),
        request_timeout_ms=2_000,
        random=random.Random(1),
    )
    consumer = GroupConsumer(client, "g", ["t"], on_no_offset="earliest", session_timeout_ms=6_000)
    late = GroupConsumer(client, "late", ["t"], on_no_offset="earliest")
    async with client, consumer, late:
        await consumer.poll(timeout_ms=10)
        assert len(consumer.assignment) == 1
        (coordinator,) = cluster.leaders("__consumer_offsets", seen_by=1)
        await cluster.stop_broker(coordinator)
        failures = 0
        for member in (consumer, consumer, late, late):
            try:
                await (member.poll() if member is late else member._join())
            except OdradekError:
                failures += 1
        assert failures == 4
        # At a host of another name, as in Kubernetes.
        await cluster.start_broker(coordinator)
        leader = cluster.leaders("t", seen_by=coordinator)[0]
        await cluster.produce(leader, "t", 0, b"a", b"b")
        assert [record.value for record in await consumer.poll(timeout_ms=5_000)] == [b"a", b"b"]
        await consumer.commit()
        assert [record.value for record in await late.poll(timeout_ms=5_000)] == [b"a", b"b"]
        key = TopicPartition("t", 0)
        epoch = client.cluster.partition(key).leader_epoch
        assert await GroupAdmin(client).offsets("g") == {key: CommittedOffset(2, epoch)}


async def test_a_member_that_only_sends_heartbeats_finds_its_coordinator_again() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    client = Client(
        f"{cluster.host(1)}:{PORT}", network=cluster.network.at("client"), random=random.Random(1)
    )
    consumer = GroupConsumer(client, "g", ["t"], session_timeout_ms=10_000)
    async with client, consumer:
        await consumer.poll(timeout_ms=10)
        (coordinator,) = cluster.leaders("__consumer_offsets", seen_by=1)
        # As after a move of the group, of which the client knows nothing.
        client._coordinators[0, "g"] = 3 - coordinator
        await consumer.poll(timeout_ms=30_000)
        assert client._coordinators[0, "g"] == coordinator
        assert consumer.generation == 1, "the group kept its member"
