"""Records reach every replica, and acks=all waits for them: leader, followers and controller in one process."""

from __future__ import annotations

import asyncio

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.replicas import TOPIC_ID, ReplicaCluster
from tests.support.whole_broker import batch

NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7


@pytest.mark.thorough
async def test_every_replica_gets_every_record_at_its_offset() -> None:
    cluster = await ReplicaCluster.start(partitions=3, replicas=(1, 2, 3))
    for number in range(30):
        answer = await cluster.produce(1, b"a%d" % number, b"b%d" % number, index=number % 3)
        assert (answer.error_code, answer.base_offset) == (0, number // 3 * 2)
    await asyncio.sleep(1)
    for index in range(3):
        leader = cluster.nodes[1].partition(index)
        assert leader.high_watermark == leader.log.log_end_offset == 20
        for follower in (cluster.nodes[2], cluster.nodes[3]):
            assert follower.values(index) == cluster.nodes[1].values(index)
            assert follower.partition(index).high_watermark == 20


async def test_many_partitions_share_one_request_and_its_session() -> None:
    cluster = await ReplicaCluster.start(brokers=2, partitions=40, replicas=(1, 2))
    (fetcher,) = cluster.nodes[2].fetchers
    before = fetcher.requests
    assert before < 5, "the partitions came together"
    await asyncio.gather(*(cluster.produce(1, b"v", index=index) for index in range(40)))
    assert fetcher.requests - before < 5
    assert len(cluster.nodes[1].parts.fetch.fetch_sessions) == 1
    before = fetcher.requests
    await asyncio.sleep(10)
    assert fetcher.requests - before <= 21, "an idle follower asks twice a second"


async def test_large_batches_and_small_segments_are_followed_across_rolls() -> None:
    cluster = await ReplicaCluster.start()
    await cluster.create_topic(replicas=(1, 2, 3), internal_segment_bytes="3000")
    cluster.disconnect(1, 2)
    for number in range(40):
        answer = await cluster.produce(1, bytes([number]) * 700, acks=1)
        assert answer.error_code == 0
    cluster.heal()
    follower = cluster.nodes[2].partition().log
    await cluster.until(lambda: follower.log_end_offset == 40)
    assert len(follower.segments.all) > 5
    assert cluster.nodes[2].values() == cluster.nodes[1].values()
    assert follower.epochs.entries == cluster.nodes[1].partition().log.epochs.entries


@pytest.mark.parametrize("acks", [0, 1])
async def test_only_all_waits_for_the_followers(acks: int) -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 2)
    cluster.disconnect(1, 3)
    await asyncio.sleep(1)
    if acks:
        assert (await cluster.produce(1, b"v", acks=acks)).error_code == 0
    else:
        partition = cluster.nodes[1].partition()
        partition.require_leader().append(batch([b"v"]), required_acks=0)
    leader = cluster.nodes[1].partition()
    assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)


async def test_all_waits_for_a_slow_follower_and_says_so_when_the_time_is_up() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    late = await cluster.produce(1, b"v", timeout_ms=500)
    assert late.error_code == REQUEST_TIMED_OUT
    leader = cluster.nodes[1].partition()
    assert leader.high_watermark == 0, "one of the in-sync set does not have it"
    waiting = asyncio.create_task(cluster.produce(1, b"w"))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    cluster.heal()
    answer = await waiting
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert cluster.nodes[3].values()[1] == b"w"
    assert not leader.replica.pending_produces and not cluster.nodes[1].partitions.acknowledgements


async def test_answers_of_one_connection_wait_independently() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    answers = await asyncio.gather(*(cluster.produce(1, b"%d" % n) for n in range(100)))
    assert sorted(answer.base_offset for answer in answers) == list(range(100))
    assert cluster.nodes[1].partition().high_watermark == 100


async def test_a_follower_refuses_produce() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    assert (await cluster.produce(2, b"v")).error_code == NOT_LEADER_OR_FOLLOWER
    assert cluster.nodes[2].partition().log.log_end_offset == 0


async def test_only_replicas_of_this_life_may_fetch_as_followers() -> None:
    cluster = await ReplicaCluster.start(brokers=4, replicas=(1, 2, 3))
    await asyncio.sleep(1)

    async def code(replica_id: int, replica_epoch: int, leader_epoch: int = 0) -> int:
        partition = {
            "partition": 0,
            "fetch_offset": 0,
            "partition_max_bytes": 100,
            "current_leader_epoch": leader_epoch,
        }
        answer = await cluster.nodes[1].ask(
            ApiKey.FETCH,
            17,
            replica_state={"replica_id": replica_id, "replica_epoch": replica_epoch},
            topics=[{"topic_id": TOPIC_ID, "partitions": [partition]}],
        )
        return int(answer.responses[0].partitions[0].error_code)

    epoch = cluster.nodes[2].epoch
    assert await code(2, epoch) == 0
    assert await code(2, epoch - 1) == NOT_LEADER_OR_FOLLOWER, "an older life of the broker"
    assert await code(4, -1) == 75, "the leader may not know it yet"
    assert await code(4, -1, leader_epoch=-1) == NOT_LEADER_OR_FOLLOWER
    assert await code(2, epoch, leader_epoch=1) == 75
    cluster.elect(1)
    await asyncio.sleep(0.1)
    assert await code(2, epoch) == 74
    cluster.elect(2)
    await asyncio.sleep(0.1)
    assert await code(3, -1, leader_epoch=-1) == NOT_LEADER_OR_FOLLOWER


# --- deletion ---------------------------------------------------------------------------------------------------------


async def test_a_deletion_is_answered_when_every_live_replica_has_followed() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    for number in range(10):
        await cluster.produce(1, b"%d" % number)
    await asyncio.sleep(1)

    async def delete(offset: int, timeout_ms: int = 5000) -> tuple[int, int]:
        answer = await cluster.nodes[1].ask(
            ApiKey.DELETE_RECORDS,
            2,
            timeout=timeout_ms,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}],
        )
        (found,) = answer.topics[0].partitions
        return int(found.error_code), int(found.low_watermark)

    assert await delete(4) == (0, 4)
    for node in cluster.nodes.values():
        assert node.partition().log.log_start_offset == 4
    cluster.disconnect(1, 3)
    await asyncio.sleep(1)
    assert await delete(6, timeout_ms=1000) == (REQUEST_TIMED_OUT, -1)
    await cluster.kill_node(3)
    await asyncio.sleep(0.1)
    assert await delete(7) == (0, 7), "who is not live is not waited for"
    cluster.heal()
    cluster.start_node(3)
    await cluster.until(lambda: cluster.nodes[3].partition().log.log_start_offset == 7)


async def test_a_follower_that_is_behind_the_leaders_start_begins_there() -> None:
    cluster = await ReplicaCluster.start(replica_lag_time_max_ms="1000")
    await cluster.create_topic(replicas=(1, 2, 3), internal_segment_bytes="2000")
    await cluster.produce(1, b"first")
    cluster.disconnect(1, 3)
    await cluster.produce(1, b"second", timeout_ms=60_000)
    for number in range(20):
        await cluster.produce(1, b"%d" % number * 200)
    leader = cluster.nodes[1].partition()
    leader.require_leader().delete_records(15)
    leader.log.delete_old_segments(leader.high_watermark)
    cluster.heal()
    await cluster.until(lambda: cluster.states[0].isr == (1, 2, 3))
    follower = cluster.nodes[3].partition().log
    assert follower.log_start_offset >= 15 and follower.log_end_offset == 22
    assert cluster.nodes[3].values() == {
        offset: value
        for offset, value in cluster.nodes[1].values().items()
        if offset >= follower.log_start_offset
    }
