"""A cluster with a broker that is away: topics are made with all their replicas, groups work, and it is shown."""

from __future__ import annotations

from typing import Any

from odradek.foundation.errors import BrokerIdNotRegistered, InvalidReplicationFactor, InvalidRequest
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of
from tests.support.whole_cluster import WholeCluster

BROKER_RESOURCE = 4


async def described(cluster: WholeCluster, *, fenced: bool) -> list[tuple[int, bool]]:
    """The brokers of DescribeCluster, and which are fenced."""
    answer: Any = await cluster.ask(
        1,
        ApiKey.DESCRIBE_CLUSTER,
        2,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=fenced,
    )
    return [(one.broker_id, one.is_fenced) for one in answer.brokers]


async def test_a_topic_and_a_group_begin_while_a_broker_is_away() -> None:
    """The broker that comes back gets its replicas, and is in sync."""
    entries = {"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}
    cluster = await WholeCluster.start(entries=entries)
    await cluster.kill_broker(3)
    await cluster.until(lambda: 3 not in cluster.image(1).brokers)
    assert await cluster.create_topic("t", replicas=3) == 0
    assert [set(one) for one in cluster.replicas("t", seen_by=1)] == [{1, 2, 3}] * 3
    leader = cluster.leaders("t", seen_by=1)[0]
    assert int((await cluster.produce(leader, "t", 0, b"while it is away", acks=-1)).error_code) == 0
    coordinator = await cluster.coordinator("g", through=1)
    assert await cluster.commit_offset(coordinator, 1) == 0
    (offsets,) = cluster.image(1).topics["__consumer_offsets"].partitions
    assert set(offsets.replicas) == {1, 2, 3}

    await cluster.start_broker(3)
    topics = ("t", "__consumer_offsets")
    await cluster.until(
        lambda: all(
            set(one.isr) == {1, 2, 3} for name in topics for one in cluster.image(3).topics[name].partitions
        )
    )
    await cluster.until(lambda: cluster.brokers[3].partitions.get("t", 0).log.log_end_offset == 1)


async def test_a_broker_that_is_away_is_shown_until_it_is_removed() -> None:
    cluster = await WholeCluster.start()
    assert await described(cluster, fenced=True) == [(1, False), (2, False), (3, False)]
    alive = await cluster.ask(1, ApiKey.UNREGISTER_BROKER, 0, broker_id=3)
    assert int(alive.error_code) == code_of(InvalidRequest)
    assert "broker 3 is alive" in alive.error_message
    await cluster.stop_broker(3)
    await cluster.until(lambda: 3 not in cluster.image(1).brokers)
    assert await described(cluster, fenced=True) == [(1, False), (2, False), (3, True)]
    assert await described(cluster, fenced=False) == [(1, False), (2, False)]
    listed = await cluster.ask(1, ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[BROKER_RESOURCE])
    assert [one.resource_name for one in listed.config_resources] == ["1", "2", "3"]

    assert int((await cluster.ask(1, ApiKey.UNREGISTER_BROKER, 0, broker_id=3)).error_code) == 0
    assert await described(cluster, fenced=True) == [(1, False), (2, False)]
    again = await cluster.ask(2, ApiKey.UNREGISTER_BROKER, 0, broker_id=3)
    assert int(again.error_code) == code_of(BrokerIdNotRegistered)
    assert await cluster.create_topic("t", replicas=3) == code_of(InvalidReplicationFactor)
