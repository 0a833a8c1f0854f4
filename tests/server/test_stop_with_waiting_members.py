"""A broker's stop does not wait for members of a group that wait for others."""

from __future__ import annotations

import asyncio
import random

from odradek.client.client import Client
from odradek.client.consumer.group import GroupConsumer
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "60000",
    "controlled.shutdown.enable": "false",
}

CONTROLLER = 100


async def test_members_waiting_for_others_are_sent_to_another_coordinator() -> None:
    cluster = await WholeCluster.start(brokers=1, controllers=1, entries=ENTRIES)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    client = Client(
        f"{cluster.host(1)}:{PORT}", network=cluster.network.at("client"), random=random.Random(1)
    )
    consumer = GroupConsumer(client, "g", ["t"], on_no_offset="earliest")
    async with client, consumer:
        joining = asyncio.create_task(consumer.poll(timeout_ms=100_000))
        await asyncio.sleep(10)
        assert not joining.done()
        # Else the controller takes the leadership away first, and the coordinator's end is reported as such.
        cluster.network.part(cluster.host(1), cluster.host(CONTROLLER))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await cluster.stop_broker(1)
        assert loop.time() - began < 1  # of virtual time
        joining.cancel()
        await asyncio.wait([joining])
