"""Partitions move no faster than they may, and replicas in sync are never slowed down (KIP-73)."""

from __future__ import annotations

import asyncio

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.server.test_reassignment import reassign
from tests.support.whole_cluster import WholeCluster

TOPIC, BROKER = 2, 4
RATE = 50_000
ENTRIES = {"replica.fetch.max.bytes": "20000", "replica.fetch.response.max.bytes": "40000"}


async def configure(cluster: WholeCluster, kind: int, name: str, **values: str) -> None:
    changes = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": text} for key, text in values.items()
    ]
    answer = await cluster.ask(
        1,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[{"resource_type": kind, "resource_name": name, "configs": changes}],
        validate_only=False,
    )
    assert [int(one.error_code) for one in answer.responses] == [0]


async def a_filled_topic(cluster: WholeCluster, *, kilobytes: int) -> int:
    """A partition with that much in it; its leader, which is its only replica."""
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    (home,) = cluster.replicas("t", seen_by=1)[0]
    # Small against a fetch, whose last batch is truncated and sent again.
    for _ in range(kilobytes // 2):
        await cluster.produce(home, "t", 0, b"x" * 2_000)
    return home


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", ["pairs", "all"])
async def test_a_move_takes_as_long_as_its_throttle_says(side: str, named: str) -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES)
    home = await a_filled_topic(cluster, kilobytes=500)
    away = 3 - home
    slowed = home if side == "leader" else away
    value = "*" if named == "all" else f"0:{slowed}"
    await configure(cluster, TOPIC, "t", **{f"{side}_replication_throttled_replicas": value})
    await configure(cluster, BROKER, str(slowed), **{f"{side}_replication_throttled_rate": str(RATE)})
    began = asyncio.get_running_loop().time()
    assert await reassign(cluster, "t", [away]) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=1) == [(away,)])
    # Nine seconds: ten, less the one that was saved up.
    assert 8.0 < asyncio.get_running_loop().time() - began < 13.0
    throttle = getattr(cluster.brokers[slowed].partitions.context.throttles, side)
    assert throttle.bytes_total >= 500_000
    assert throttle.times_held_back > 0


async def test_other_replicas_are_not_throttled_and_a_lifted_throttle_ends() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES)
    home = await a_filled_topic(cluster, kilobytes=500)
    away = 3 - home
    await configure(cluster, TOPIC, "t", leader_replication_throttled_replicas=f"0:{away},1:{home}")
    await configure(cluster, BROKER, str(home), leader_replication_throttled_rate="1")
    assert await reassign(cluster, "t", [away]) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=1) == [(away,)], seconds_max=5)

    # Now it is the other's, and throttled there so that it would never end.
    await configure(cluster, BROKER, str(away), leader_replication_throttled_rate="1")
    assert await reassign(cluster, "t", [home]) == [0]
    await asyncio.sleep(30)
    assert cluster.replicas("t", seen_by=1) == [(home, away)]
    await configure(cluster, BROKER, str(away), leader_replication_throttled_rate="10000000")
    await cluster.until(lambda: cluster.replicas("t", seen_by=1) == [(home,)], seconds_max=5)


async def test_a_replica_in_sync_is_never_held_back() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    every = {
        "leader_replication_throttled_replicas": "*",
        "follower_replication_throttled_replicas": "*",
    }
    await configure(cluster, TOPIC, "t", **every)
    for broker in ("1", "2"):
        await configure(
            cluster,
            BROKER,
            broker,
            leader_replication_throttled_rate="1",
            follower_replication_throttled_rate="1",
        )
    (leader,) = cluster.leaders("t", seen_by=1)
    began = asyncio.get_running_loop().time()
    for _ in range(50):
        answer = await cluster.produce(leader, "t", 0, b"x" * 10_000, acks=-1)
        assert answer.error_code == 0
    assert asyncio.get_running_loop().time() - began < 10


async def test_a_move_of_a_single_replica_keeps_producers_with_acks_all_served() -> None:
    entries = {**ENTRIES, "min.insync.replicas": "2"}
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=entries)
    home = await a_filled_topic(cluster, kilobytes=100)
    away = 3 - home
    cluster.network.part(cluster.host(home), cluster.host(away))
    assert await reassign(cluster, "t", [away]) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=home) == [(away, home)])
    answer = await cluster.produce(home, "t", 0, b"still", acks=-1)
    assert answer.error_code == 0
    cluster.network.heal()
    await cluster.until(lambda: cluster.replicas("t", seen_by=1) == [(away,)])
    assert cluster.brokers[away].partitions.get("t", 0).high_watermark == 51
