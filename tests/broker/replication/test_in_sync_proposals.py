"""The in-sync set: a lagging follower leaves and joins again, too few refuse acks=all, and the controller decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from odradek.broker.replication.in_sync_proposals import Proposal
from odradek.foundation.errors import NotController, RequestError
from tests.support.replicas import ReplicaCluster, ReplicaNode, follower_states

NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20


async def test_a_lagging_follower_leaves_the_set_and_joins_again() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    await cluster.produce(1, b"0")
    await asyncio.sleep(60)  # Nothing arrives, and a follower that keeps fetching is not behind.
    cluster.disconnect(1, 3)
    started = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(cluster.produce(1, b"1", timeout_ms=60_000))
    await cluster.until(lambda: cluster.states[0].isr == (1, 2))
    lagged_seconds = asyncio.get_running_loop().time() - started
    assert 9.4 < lagged_seconds < 16
    assert (await waiting).error_code == 0, "what waited for it is committed by the others"
    assert cluster.states[0].leader_epoch == 0
    cluster.heal()
    await cluster.until(lambda: cluster.states[0].isr == (1, 2, 3))
    assert cluster.nodes[3].values() == {0: b"0", 1: b"1"}


async def test_too_few_in_sync_refuse_acks_all_and_accept_acks_1() -> None:
    cluster = await ReplicaCluster.start()
    await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
    await cluster.kill_node(2)
    await cluster.kill_node(3)
    await asyncio.sleep(0.1)
    assert cluster.states[0].isr == (1,)
    assert (await cluster.produce(1, b"v")).error_code == NOT_ENOUGH_REPLICAS
    leader = cluster.nodes[1].partition()
    assert leader.log.log_end_offset == 0, "nothing was written"
    assert (await cluster.produce(1, b"v", acks=1)).error_code == 0
    assert leader.high_watermark == 0, "too few hold it for a consumer to see it"
    cluster.start_node(2)
    await cluster.until(lambda: cluster.states[0].isr == (1, 2))
    answer = await cluster.produce(1, b"w")
    assert (answer.error_code, answer.base_offset) == (0, 1)


async def test_a_set_too_small_after_the_append_is_answered() -> None:
    cluster = await ReplicaCluster.start()
    await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
    cluster.disconnect(1, 2)
    cluster.disconnect(1, 3)
    waiting = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=60_000))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    answer = await waiting
    assert answer.error_code == NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert cluster.states[0].isr == (1,)
    leader = cluster.nodes[1].partition()
    assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)


async def test_a_shrunken_set_counts_only_when_the_controller_has_taken_it() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    cluster.is_controller_reachable = False
    waiting = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=600_000))
    await asyncio.sleep(60)
    leader = cluster.nodes[1].partition()
    assert follower_states(leader).proposed == frozenset({1, 2})
    assert not waiting.done() and leader.high_watermark == 0
    cluster.is_controller_reachable = True
    assert (await waiting).error_code == 0
    assert cluster.states[0].isr == (1, 2)


async def test_a_set_that_a_controller_at_its_end_did_not_take_is_proposed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(_: ReplicaNode, proposals: Sequence[Proposal]) -> list[RequestError]:
        return [NotController("another controller is elected") for _ in proposals]

    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    monkeypatch.setattr(cluster, "alter_partition", refused)
    await cluster.produce(1, b"0", acks=1)
    leader = cluster.nodes[1].partition()
    await cluster.until(lambda: follower_states(leader).proposed == frozenset({1, 2}))
    await asyncio.sleep(1)
    monkeypatch.undo()
    await cluster.until(lambda: cluster.states[0].isr == (1, 2))


async def test_a_follower_that_is_proposed_counts_before_it_is_in() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.set_isr(1, 2)
    cluster.disconnect(1, 3)
    await asyncio.sleep(0.5)
    await cluster.produce(1, b"0")
    cluster.is_controller_reachable = False
    cluster.heal()
    cluster.is_controller_reachable = False
    leader = cluster.nodes[1].partition()
    await cluster.until(lambda: follower_states(leader).proposed == frozenset({1, 2, 3}))
    cluster.disconnect(1, 3)
    waiting = asyncio.create_task(cluster.produce(1, b"1"))
    await asyncio.sleep(5)
    assert not waiting.done() and leader.high_watermark == 1
    cluster.heal()
    assert (await waiting).error_code == 0


async def test_a_lost_answer_of_the_controller_is_found_out_by_the_image() -> None:
    cluster = await ReplicaCluster.start(replica_lag_time_max_ms="2000", replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    await cluster.produce(1, b"0", acks=1)
    await cluster.until(lambda: bool(cluster.proposals))
    cluster.is_controller_reachable = False  # The set is accepted, and the answer is lost.
    await asyncio.sleep(1)
    cluster.heal()
    await cluster.until(lambda: cluster.states[0].isr == (1, 2, 3))
    leader = cluster.nodes[1].partition()
    await cluster.until(lambda: leader.replica.partition_epoch == cluster.states[0].partition_epoch)
    assert follower_states(leader).proposed is None
    assert leader.high_watermark == 1


async def test_a_removed_leader_ignores_the_epoch_of_an_old_answer() -> None:
    """It would follow with all that it has, count as in sync when it is to come back, and then delete it."""
    cluster = await ReplicaCluster.start(replicas=(1, 2))
    await cluster.produce(1, b"0")
    cluster.disconnect(1, 3)
    cluster.reassign(2, 3)
    await asyncio.sleep(1)
    cluster.image_delay_seconds = (60, 60)
    cluster.heal()
    left = cluster.nodes[1].partition()
    await cluster.until(lambda: cluster.states[0].leader == 2)
    assert cluster.states[0].replicas == (2, 3)
    await asyncio.sleep(5)
    assert (left.leader_id, left.leader_epoch) == (1, 0)
    assert left.replica.in_sync_replicas == (1, 2)
    await asyncio.sleep(60)
    assert len(cluster.nodes[1].partitions) == 0
    await cluster.produce(2, b"1")
    assert cluster.nodes[2].values() == {0: b"0", 1: b"1"}


async def test_a_removed_member_may_be_eligible_until_the_image_says() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    leader = cluster.nodes[1].partition()
    cluster.image_delay_seconds = (100.0, 101.0)
    cluster.disconnect(1, 3)
    await cluster.produce(1, b"v", acks=1)
    await cluster.until(lambda: leader.replica.in_sync_replicas == (1, 2))
    assert leader.replica.eligible_replicas == (3,), "the controller's answer does not say"
    await cluster.until(lambda: leader.replica.eligible_replicas == (), seconds=110)
    assert leader.replica.in_sync_replicas == (1, 2)
