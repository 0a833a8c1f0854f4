"""Partitions move between the brokers of a whole cluster, and nothing that was acknowledged is left behind."""

from __future__ import annotations

from typing import Any

from odradek.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.whole_cluster import WholeCluster

NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR = 85, 39, 38


async def reassign(
    cluster: WholeCluster, topic: str, *wanted: list[int] | None, through: int = 1, **more: Any
) -> list[int]:
    """Ask for the replicas of each partition from 0 on; the error codes of the answers."""
    answer = await cluster.ask(
        through,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "replicas": replicas}
                    for number, replicas in enumerate(wanted)
                ],
            }
        ],
        **more,
    )
    assert int(answer.error_code) == 0
    return [int(row.error_code) for one in answer.responses for row in one.partitions]


async def under_way(cluster: WholeCluster, through: int = 1) -> dict[tuple[str, int], tuple[list[int], ...]]:
    """(replicas, adding, removing) by partition."""
    answer = await cluster.ask(through, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    return {
        (topic.name, row.partition_index): (
            list(row.replicas),
            list(row.adding_replicas),
            list(row.removing_replicas),
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def replicas(cluster: WholeCluster, topic: str, seen_by: int) -> list[tuple[int, ...]]:
    return [one.replicas for one in cluster.image(seen_by).topics[topic].partitions]


def test_a_partition_moves_with_all_that_it_holds_and_its_leader() -> None:
    async def story() -> None:
        cluster = await WholeCluster.start(brokers=3, controllers=1)
        assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
        (home,) = cluster.image(1).topics["t"].partitions[0].replicas
        away = home % 3 + 1
        await cluster.produce(home, "t", 0, b"a", b"b", acks=-1)
        assert await reassign(cluster, "t", [away], through=away) == [0]
        await cluster.until(lambda: replicas(cluster, "t", away) == [(away,)])
        assert cluster.leaders("t", seen_by=away) == [away]
        assert cluster.brokers[away].partitions.get("t", 0).high_watermark == 2
        answer = await cluster.produce(away, "t", 0, b"c", acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, 2)
        await cluster.until(lambda: len(cluster.brokers[home].partitions) == 0)
        assert await under_way(cluster) == {}
        await cluster.stop()

    run(story())
