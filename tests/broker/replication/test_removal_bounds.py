"""A replica that was away for longer than delete.retention.ms: what was deleted in that time stays deleted on it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.removal_bounds import RemovalBounds
from odradek.storage.compaction.candidates import first_dirty_offset
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from tests.support.cleaning import Pair, held
from tests.support.loop import run
from tests.support.whole_broker import START_MS
from tests.support.whole_cluster import WholeCluster

RETENTION_SECONDS = 20
LAG_SECONDS = 10
ENTRIES = {
    "log.cleanup.policy": "compact",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": str(RETENTION_SECONDS * 1000),
    # Closes active segments.
    "log.cleaner.max.compaction.lag.ms": str(LAG_SECONDS * 1000),
}
GONE = (b"gone", b"1")


async def put(cluster: WholeCluster, leader: int, *pairs: Pair) -> None:
    """To all replicas that are there."""
    # Old, so that each round finds the active segment overdue. A broker's clock starts over with each start.
    data = bytes(build_batch([(START_MS - 60_000, key, value) for key, value in pairs]))
    answer = await cluster.ask(
        leader,
        ApiKey.PRODUCE,
        9,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": "table", "partition_data": [{"index": 0, "records": data}]}],
    )
    assert answer.responses[0].partition_responses[0].error_code == 0


def partition(cluster: WholeCluster, broker_id: int) -> Partition:
    return cluster.brokers[broker_id].partitions.get("table", 0)


def logs(cluster: WholeCluster) -> dict[int, list[Pair]]:
    return {broker_id: held(partition(cluster, broker_id).log) for broker_id in cluster.brokers}


async def rounds(cluster: WholeCluster, leader: int, count: int) -> None:
    """New values, each long enough after the last for a round on every replica, and for the retention."""
    for number in range(count):
        await put(cluster, leader, (b"kept", b"%d" % number))
        await asyncio.sleep(LAG_SECONDS + RETENTION_SECONDS + 5)


@pytest.mark.thorough
@pytest.mark.parametrize("is_clock_alone", [False, True], ids=["bounds", "clock alone"])
def test_a_replica_that_was_away_brings_no_deleted_key_back(is_clock_alone: bool) -> None:
    async def story() -> None:
        cluster = await WholeCluster.start(entries=ENTRIES)
        assert await cluster.create_topic("table", partitions=1, replicas=3) == 0
        await cluster.until(lambda: "table" in cluster.image(1).topics)
        (leader,) = cluster.leaders("table", seen_by=1)
        away = next(one for one in (1, 2, 3) if one != leader)
        await put(cluster, leader, GONE, (b"kept", b"0"))
        await asyncio.sleep(1)
        await cluster.kill_broker(away)
        await put(cluster, leader, (b"gone", None))
        await rounds(cluster, leader, 6)
        if not is_clock_alone:
            # Far beyond the retention, since one replica has not seen it.

            assert all((b"gone", None) in found for found in logs(cluster).values())
        await cluster.start_broker(away)
        await rounds(cluster, leader, 6)
        found = logs(cluster)
        assert set(found) == {1, 2, 3}
        if is_clock_alone:
            # What Kafka does: the tombstone was not there any more for the replica that needed it.
            assert GONE in found[away]
        else:
            assert all(b"gone" not in dict(one) for one in found.values())

    with pytest.MonkeyPatch.context() as patch:
        if is_clock_alone:

            async def own(_: RemovalBounds, asked: Partition) -> int:
                return first_dirty_offset(asked.log)

            patch.setattr(RemovalBounds, "find_bound", own)
        run(story())


async def test_a_replica_that_does_not_answer_counts_as_nothing_compacted() -> None:
    cluster = await WholeCluster.start(entries=ENTRIES)
    assert await cluster.create_topic("table", partitions=1, replicas=3) == 0
    await cluster.until(lambda: "table" in cluster.image(1).topics)
    (leader,) = cluster.leaders("table", seen_by=1)
    await put(cluster, leader, GONE, (b"gone", b"2"))
    await rounds(cluster, leader, 1)
    bounds = cluster.brokers[leader].cleaner._bounds
    here = partition(cluster, leader)
    assert await bounds.find_bound(here) == 3
    behind = next(one for one in (1, 2, 3) if one != leader)
    partition(cluster, behind).log.offsets.cleaned_offset = 1
    assert await bounds.find_bound(here) == 1
    await cluster.kill_broker(behind)
    assert await bounds.find_bound(here) == 0
