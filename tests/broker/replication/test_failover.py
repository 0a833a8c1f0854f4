"""Leaders change: logs that diverged are truncated where they diverged, and no acknowledged record is lost."""

from __future__ import annotations

import asyncio

import pytest

from odradek.storage.epochs import EpochEntry
from odradek.wire.protocol.api import ApiKey
from tests.support.replicas import ReplicaCluster

LEADER_NOT_AVAILABLE = 5
OFFSET_NOT_AVAILABLE = 78


async def same_logs(cluster: ReplicaCluster) -> dict[int, bytes]:
    """Wait until every replica is in sync; what all of them hold."""
    replicas = cluster.states[0].replicas
    await cluster.until(lambda: set(cluster.states[0].isr) == set(replicas))
    leader = cluster.leader()
    await cluster.until(lambda: leader.partition().high_watermark == leader.partition().log.log_end_offset)
    expected = leader.values()
    for broker_id in replicas:
        await cluster.until(
            lambda broker_id=broker_id: (  # type: ignore[misc]  # bound in each turn
                cluster.nodes[broker_id].partition().log.log_end_offset
                == leader.partition().log.log_end_offset
            )
        )
        assert cluster.nodes[broker_id].values() == expected
        epochs = cluster.nodes[broker_id].partition().log.epochs
        assert [epochs.epoch_for_offset(offset) for offset in expected] == [
            leader.partition().log.epochs.epoch_for_offset(offset) for offset in expected
        ]
    return expected


# --- KIP-101 ----------------------------------------------------------------------------------------------------------


async def test_a_follower_keeps_what_is_above_the_high_watermark_that_it_knows() -> None:
    """KIP-101, the first scenario: truncated there, the acknowledged record would be lost with the leader."""
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    await cluster.produce(1, b"0")
    await asyncio.sleep(1)
    assert (await cluster.produce(1, b"1")).error_code == 0
    follower = cluster.nodes[2].partition()
    assert (follower.log.log_end_offset, follower.high_watermark) == (2, 1)
    cluster.elect(1)  # The follower begins again, under the same leader,
    await cluster.until(lambda: follower.leader_epoch == 1)
    await cluster.kill_node(1)  # which dies.
    await cluster.until(lambda: follower.is_leader)
    assert cluster.nodes[2].values() == {0: b"0", 1: b"1"}
    cluster.start_node(1)
    assert await same_logs(cluster) == {0: b"0", 1: b"1"}


async def test_a_former_leader_truncates_what_only_it_has() -> None:
    """KIP-101, the second scenario: the same offset was written by two leaders, and both high watermarks are above."""
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    await cluster.produce(1, b"0")
    await asyncio.sleep(1)
    cluster.disconnect(1, 2)
    await cluster.produce(1, b"never acknowledged", acks=1)
    await cluster.produce(1, b"nor this", acks=1)
    await cluster.kill_node(1)
    await cluster.until(lambda: cluster.nodes[2].partition().is_leader)
    assert (await cluster.produce(2, b"1")).base_offset == 1
    cluster.heal()
    cluster.start_node(1)
    assert await same_logs(cluster) == {0: b"0", 1: b"1"}
    assert cluster.nodes[1].partition().log.epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 1)]


# --- KIP-279 ----------------------------------------------------------------------------------------------------------


async def test_epochs_of_only_one_log_are_truncated_one_by_one() -> None:
    """KIP-279: the leader answers with an epoch that the follower does not know."""
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    await cluster.produce(1, b"0")
    await cluster.produce(1, b"1")
    cluster.disconnect(1, 2)
    for epoch, leader, count in ((1, 2, 3), (2, 1, 5), (3, 2, 1), (4, 1, 4)):
        cluster.elect(leader, isr=(leader,))
        await cluster.until(lambda leader=leader: cluster.nodes[leader].partition().is_leader)  # type: ignore[misc]
        for number in range(count):
            value = b"%d of epoch %d" % (number, epoch)
            assert (await cluster.produce(leader, value)).error_code == 0
        await asyncio.sleep(0.1)
    cluster.elect(2, isr=(2,))
    await cluster.until(lambda: cluster.nodes[2].partition().is_leader)
    cluster.heal()
    expected = [b"0", b"1", *(b"%d of epoch 1" % n for n in range(3)), b"0 of epoch 3"]
    assert list((await same_logs(cluster)).values()) == expected


async def test_an_epoch_without_records_does_not_keep_a_contender_from_following() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    await cluster.produce(1, b"0")
    cluster.disconnect(1, 2)
    contender = cluster.nodes[2].partition()
    cluster.elect(2, isr=(2,))
    await cluster.until(lambda: contender.is_leader)
    assert contender.log.epochs.latest_epoch == 1, "noted though nothing was written in it"
    cluster.elect(1, isr=(1,))
    await cluster.until(lambda: not contender.is_leader)
    cluster.heal()
    await cluster.until(lambda: cluster.states[0].isr == (1, 2))
    assert (await cluster.produce(1, b"1")).error_code == 0
    assert await same_logs(cluster) == {0: b"0", 1: b"1"}
    assert contender.log.epochs.entries == [EpochEntry(0, 0), EpochEntry(2, 1)]


# --- restarts ---------------------------------------------------------------------------------------------------------


async def test_a_clean_restart_begins_with_the_stored_high_watermark() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    for number in range(3):
        await cluster.produce(1, b"%d" % number)
    await asyncio.sleep(1)
    await cluster.stop_node(2)
    written = cluster.disks[2].read("/logs/replication-offset-checkpoint")
    assert written == b"0\n1\nt 0 3\n"
    cluster.disconnect(1, 2)
    cluster.start_node(2)
    assert cluster.nodes[2].partition().high_watermark == 3
    cluster.heal()
    await same_logs(cluster)


async def test_high_watermarks_are_written_down_now_and_then() -> None:
    cluster = await ReplicaCluster.start(partitions=2, replicas=(1, 2, 3))
    await cluster.produce(1, b"v", index=1)
    await asyncio.sleep(6)
    for disk in cluster.disks.values():
        assert disk.read("/logs/replication-offset-checkpoint") == b"0\n2\nt 0 0\nt 1 1\n"
    await cluster.kill_node(1)
    cluster.disconnect(1, 2)
    cluster.disconnect(1, 3)
    cluster.start_node(1)
    assert cluster.nodes[1].partition(1).high_watermark == 1


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("victim", [1, 2])
async def test_a_broker_after_an_unclean_stop_has_to_catch_up(victim: int, power_loss: bool) -> None:
    cluster = await ReplicaCluster.start()
    await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
    expected = {}
    for number in range(20):
        answer = await cluster.produce(1, b"%d" % number)
        expected[answer.base_offset] = b"%d" % number
    await cluster.kill_node(victim, power_loss=power_loss)
    cluster.start_node(victim)
    await asyncio.sleep(0.001)
    assert victim not in cluster.states[0].isr
    assert cluster.states[0].leader != victim
    assert await same_logs(cluster) == expected
    answer = await cluster.produce(cluster.states[0].leader, b"after")
    assert (answer.error_code, answer.base_offset) == (0, 20)


# --- what clients see -------------------------------------------------------------------------------------------------


async def test_requests_waiting_at_a_former_leader_are_answered_at_once() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    producing = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=60_000))
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100, "current_leader_epoch": 0}
    reading = asyncio.create_task(
        cluster.nodes[1].ask(
            ApiKey.FETCH,
            12,
            min_bytes=1,
            max_wait=60_000,
            topics=[{"topic": "t", "partitions": [asked]}],
        )
    )
    await asyncio.sleep(0.1)
    started = asyncio.get_running_loop().time()
    cluster.elect(2)
    assert (await producing).error_code == 6
    assert (await reading).responses[0].partitions[0].error_code == 74
    assert asyncio.get_running_loop().time() - started < 0.1


async def test_a_new_leader_gives_no_end_before_it_knows_what_is_committed() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    await cluster.produce(1, b"0")
    await asyncio.sleep(1)
    await cluster.produce(1, b"1")
    cluster.disconnect(2, 3)
    await cluster.kill_node(1)
    leader = cluster.nodes[2].partition()
    await cluster.until(lambda: leader.is_leader)
    assert (leader.high_watermark, leader.require_leader().epoch_start_offset) == (1, 2)

    async def end(version: int, timestamp: int = -1) -> tuple[int, int]:
        asked = {"partition_index": 0, "timestamp": timestamp}
        answer = await cluster.nodes[2].ask(
            ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "t", "partitions": [asked]}]
        )
        (found,) = answer.topics[0].partitions
        return int(found.error_code), int(found.offset)

    assert await end(5) == (OFFSET_NOT_AVAILABLE, -1)
    assert await end(4) == (LEADER_NOT_AVAILABLE, -1)
    assert await end(5, 1 << 60) == (OFFSET_NOT_AVAILABLE, -1)
    assert await end(5, 0) == (0, 0), "it is below what is known to be committed"
    assert await end(5, -2) == (0, 0)
    cluster.heal()
    await cluster.until(lambda: leader.high_watermark == 2)
    assert await end(5) == (0, 2)


async def test_only_the_leader_answers_the_ends_of_epochs() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    await cluster.produce(1, b"0")
    cluster.elect(2)
    await cluster.until(lambda: cluster.nodes[2].partition().is_leader)

    async def end(broker_id: int, epoch: int) -> tuple[int, int, int]:
        asked = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": -1}
        answer = await cluster.nodes[broker_id].ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[{"topic": "t", "partitions": [asked]}],
        )
        (found,) = answer.topics[0].partitions
        return int(found.error_code), int(found.leader_epoch), int(found.end_offset)

    assert await end(2, 0) == (0, 0, 1)
    assert await end(2, 1) == (0, 1, 1)
    assert await end(2, 2) == (0, -1, -1)
    await cluster.until(lambda: not cluster.nodes[1].partition().is_leader)
    assert await end(1, 0) == (6, -1, -1)


async def test_a_producers_idempotence_survives_a_failover() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    producer = {"producer_id": 9, "producer_epoch": 0}
    for sequence in range(3):
        answer = await cluster.produce(1, b"%d" % sequence, base_sequence=sequence, **producer)
        assert answer.base_offset == sequence
    await cluster.kill_node(1)
    await cluster.until(lambda: cluster.nodes[2].partition().is_leader)
    again = await cluster.produce(2, b"2", base_sequence=2, **producer)
    assert (again.error_code, again.base_offset) == (0, 2)
    gap = await cluster.produce(2, b"5", base_sequence=5, **producer)
    assert gap.error_code == 45
    after = await cluster.produce(2, b"3", base_sequence=3, **producer)
    assert (after.error_code, after.base_offset) == (0, 3)
