"""Share-partitions of a cluster: a leader that changes, and the leaders that answers name."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import WholeCluster

NOT_LEADER_OR_FOLLOWER = 6
SMALL = {
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}


async def begun() -> WholeCluster:
    """Three brokers; the first leads the one partition, the second may follow it, and the group has a state."""
    cluster = await WholeCluster.start(brokers=3, entries=SMALL)
    assert await cluster.create_topic("t", assignment=[[1, 2]]) == 0
    states = cluster.brokers[3].coordinators.share_states
    failures = await states.initialize("g", {topic_id(cluster): {0: 0}}, state_epoch=0)
    assert not any(failures.values())
    return cluster


def topic_id(cluster: WholeCluster) -> Any:
    return cluster.image(next(iter(cluster.brokers))).topics["t"].id


async def fetch(cluster: WholeCluster, broker_id: int, epoch: int, **fields: Any) -> Any:
    named = [{"partition_index": 0, "acknowledgement_batches": []}]
    values: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": epoch,
        "max_wait": 1000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": [{"topic_id": topic_id(cluster), "partitions": named}] if epoch == 0 else [],
        "forgotten_topics_data": [],
        **fields,
    }
    return await cluster.ask(broker_id, ApiKey.SHARE_FETCH, 2, **values)


async def accept(cluster: WholeCluster, broker_id: int, epoch: int, first: int, last: int) -> int:
    return await acknowledge(cluster, broker_id, epoch, first, last, kind=1)


async def acknowledge(
    cluster: WholeCluster, broker_id: int, epoch: int, first: int, last: int, *, kind: int
) -> int:
    batches = [{"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}]
    answer = await cluster.ask(
        broker_id,
        ApiKey.SHARE_ACKNOWLEDGE,
        2,
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        is_renew_ack=False,
        topics=[
            {
                "topic_id": topic_id(cluster),
                "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}],
            }
        ],
    )
    assert answer.error_code == 0
    return int(answer.responses[0].partitions[0].error_code)


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


async def test_a_new_leader_continues_where_the_old_one_was() -> None:
    cluster = await begun()
    for number in range(4):
        await cluster.produce(1, "t", 0, b"%d" % number, acks=-1)
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    assert await accept(cluster, 1, 1, 0, 1) == 0
    await cluster.stop_broker(1)
    await cluster.until(lambda: cluster.leaders("t", seen_by=2) == [2])
    assert acquired(await fetch(cluster, 2, 0)) == [(2, 3, 1)]
    assert await accept(cluster, 2, 1, 2, 3) == 0


async def test_a_broker_that_does_not_lead_names_the_leader() -> None:
    cluster = await begun()
    for broker_id in (2, 3):
        answer = await fetch(cluster, broker_id, 0, max_wait=60_000)
        (one,) = answer.responses[0].partitions
        assert one.error_code == NOT_LEADER_OR_FOLLOWER
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (1, 0)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host) == (1, cluster.host(1))
        assert await accept(cluster, broker_id, 1, 0, 0) == NOT_LEADER_OR_FOLLOWER


async def test_a_fetch_that_waits_learns_that_its_leader_leads_no_more() -> None:
    cluster = await begun()
    waiting = asyncio.ensure_future(fetch(cluster, 1, 0, max_wait=60_000))
    await asyncio.sleep(1)
    moved = await cluster.ask(
        3,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        timeout=30_000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "replicas": [2, 3]}]}],
    )
    assert moved.error_code == 0
    answer = await waiting
    assert answer.responses[0].partitions[0].error_code == NOT_LEADER_OR_FOLLOWER
    assert len(cluster.brokers[1].coordinators.share_leader) == 0
