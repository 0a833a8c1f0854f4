"""A request that waits for replicas to take a record is answered when they do not."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.foundation.errors import RequestTimedOut
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import WholeCluster


async def test_a_record_not_replicated_is_answered_at_the_timeout() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    await cluster.until(lambda: all("t" in cluster.image(one).topics for one in cluster.brokers))
    (leader,) = cluster.leaders("t", seen_by=1)
    partition = cluster.brokers[leader].partitions.get("t", 0)
    await cluster.until(lambda: len(partition.replica.in_sync_replicas) == 2)
    cluster.network.part(cluster.host(1), cluster.host(2))
    assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == 0
    with pytest.raises(RequestTimedOut, match="within 2 s"):
        await partition.wait_until_committed(0, seconds_max=2)
    assert not partition.replica.pending_produces
    cluster.network.heal()
    await partition.wait_until_committed(0, seconds_max=60)


async def test_what_waited_for_a_second_replica_is_shown_once_one_is_enough() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries={"min.insync.replicas": "2"})
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    await cluster.until(lambda: all("t" in cluster.image(one).topics for one in cluster.brokers))
    (leader,) = cluster.leaders("t", seen_by=1)
    partition = cluster.brokers[leader].partitions.get("t", 0)
    await cluster.kill_broker(3 - leader)
    await cluster.until(lambda: partition.replica.in_sync_replicas == (leader,))
    assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == 0
    await asyncio.sleep(5)
    assert partition.high_watermark == 0
    answer = await cluster.ask(
        leader,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": int(ConfigResourceType.TOPIC),
                "resource_name": "t",
                "configs": [{"name": "min.insync.replicas", "config_operation": 0, "value": "1"}],
            }
        ],
        validate_only=False,
    )
    assert int(answer.responses[0].error_code) == 0
    assert partition.high_watermark == 1
