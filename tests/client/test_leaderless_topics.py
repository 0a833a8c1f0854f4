"""Records for a topic without a leader wait as long as for their delivery, also the first that a producer sends."""

from __future__ import annotations

import asyncio
import random

import pytest

from odradek.client.client import Client
from odradek.client.errors import ClientTimeout
from odradek.client.producer.producer import Producer
from tests.support.logs import START_MS
from tests.support.whole_cluster import PORT, WholeCluster

REQUEST_TIMEOUT_MS = 1_000


@pytest.mark.parametrize("is_back", [True, False])
async def test_the_first_record_waits_for_a_leader(is_back: bool) -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    leader = cluster.leaders("t", seen_by=1)[0]
    other = 3 - leader
    await cluster.kill_broker(leader)
    client = Client(
        f"{cluster.host(other)}:{PORT}",
        network=cluster.network.at("client"),
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        random=random.Random(1),
    )
    async with client:
        producer = Producer(client, delivery_timeout_ms=20 * REQUEST_TIMEOUT_MS)
        await producer.start()
        delivery = await producer.send("t", b"early", timestamp_ms=START_MS)
        await asyncio.sleep(5 * REQUEST_TIMEOUT_MS / 1000)
        if is_back:
            await cluster.start_broker(leader)
            assert (await delivery).offset == 0
        else:
            with pytest.raises(ClientTimeout, match="no leader is known"):
                await delivery
        await producer.close(is_flushing=False)
