"""Records reach every replica, and acks=all waits for them: leader, followers and controller in one process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.replicas import TOPIC_ID, ReplicaCluster
from tests.support.whole_broker import batch

NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20


def test_every_replica_gets_every_record_at_its_offset() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(partitions=3, replicas=(1, 2, 3))
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

    run(story())


def test_many_partitions_share_one_request_and_its_session() -> None:
    async def story() -> None:
        async with ReplicaCluster(brokers=2) as cluster:
            await cluster.create_topic(partitions=40, replicas=(1, 2))
            (fetcher,) = cluster.nodes[2].fetchers
            before = fetcher.requests
            assert before < 5, "the partitions came together"
            await asyncio.gather(*(cluster.produce(1, b"v", index=index) for index in range(40)))
            assert fetcher.requests - before < 5
            assert len(cluster.nodes[1].parts.fetch_sessions) == 1
            before = fetcher.requests
            await asyncio.sleep(10)
            assert fetcher.requests - before <= 21, "an idle follower asks twice a second"

    run(story())


def test_large_batches_and_small_segments_are_followed_across_rolls() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3), internal_segment_bytes="3000")
            cluster.cut(1, 2)
            for number in range(40):
                answer = await cluster.produce(1, bytes([number]) * 700, acks=1)
                assert answer.error_code == 0
            cluster.heal()
            follower = cluster.nodes[2].partition().log
            await cluster.until(lambda: follower.log_end_offset == 40)
            assert len(follower.segments.all) > 5
            assert cluster.nodes[2].values() == cluster.nodes[1].values()
            assert follower.epochs.entries == cluster.nodes[1].partition().log.epochs.entries

    run(story())


@pytest.mark.parametrize("acks", [0, 1])
def test_only_all_waits_for_the_followers(acks: int) -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.cut(1, 2)
            cluster.cut(1, 3)
            await asyncio.sleep(1)
            if acks:
                assert (await cluster.produce(1, b"v", acks=acks)).error_code == 0
            else:
                partition = cluster.nodes[1].partition()
                partition.append_as_leader(batch([b"v"]), required_acks=0)
            leader = cluster.nodes[1].partition()
            assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)

    run(story())


def test_all_waits_for_a_slow_follower_and_says_so_when_the_time_is_up() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.cut(1, 3)
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
            assert not leader.unacknowledged and not cluster.nodes[1].partitions.acknowledgements

    run(story())


def test_answers_of_one_connection_do_not_wait_for_each_other_at_the_partition() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            answers = await asyncio.gather(*(cluster.produce(1, b"%d" % n) for n in range(100)))
            assert sorted(answer.base_offset for answer in answers) == list(range(100))
            assert cluster.nodes[1].partition().high_watermark == 100

    run(story())


def test_a_follower_takes_no_produce() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            assert (await cluster.produce(2, b"v")).error_code == NOT_LEADER_OR_FOLLOWER
            assert cluster.nodes[2].partition().log.log_end_offset == 0

    run(story())


# --- min.insync.replicas ----------------------------------------------------------------------------------------------


def test_a_lagging_follower_leaves_the_set_and_comes_back() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            await cluster.produce(1, b"0")
            await asyncio.sleep(60)  # Nothing comes, and whoever asks again all the while is not behind.
            cluster.cut(1, 3)
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

    run(story())


def test_too_few_in_sync_refuse_all_and_take_one() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
            await cluster.kill_node(2)
            await cluster.kill_node(3)
            await asyncio.sleep(0.1)
            assert cluster.states[0].isr == (1,)
            assert (await cluster.produce(1, b"v")).error_code == NOT_ENOUGH_REPLICAS
            leader = cluster.nodes[1].partition()
            assert leader.log.log_end_offset == 0, "nothing was written"
            assert (await cluster.produce(1, b"v", acks=1)).error_code == 0
            assert leader.high_watermark == 0, "too few hold it for anybody to see it"
            cluster.start_node(2)
            await cluster.until(lambda: cluster.states[0].isr == (1, 2))
            answer = await cluster.produce(1, b"w")
            assert (answer.error_code, answer.base_offset) == (0, 1)

    run(story())


def test_a_set_that_becomes_too_small_after_the_append_is_told() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
            cluster.cut(1, 2)
            cluster.cut(1, 3)
            waiting = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=60_000))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            answer = await waiting
            assert answer.error_code == NOT_ENOUGH_REPLICAS_AFTER_APPEND
            assert cluster.states[0].isr == (1,)
            leader = cluster.nodes[1].partition()
            assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)

    run(story())


def test_a_shrunken_set_counts_only_when_the_controller_has_taken_it() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.cut(1, 3)
            cluster.is_controller_reachable = False
            waiting = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=600_000))
            await asyncio.sleep(60)
            leader = cluster.nodes[1].partition()
            assert leader.followers is not None and leader.followers.proposed == frozenset({1, 2})
            assert not waiting.done() and leader.high_watermark == 0
            cluster.is_controller_reachable = True
            assert (await waiting).error_code == 0
            assert cluster.states[0].isr == (1, 2)

    run(story())


def test_a_follower_that_is_proposed_counts_before_it_is_in() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.set_isr(1, 2)
            cluster.cut(1, 3)
            await asyncio.sleep(0.5)
            await cluster.produce(1, b"0")
            cluster.is_controller_reachable = False
            cluster.heal()
            cluster.is_controller_reachable = False
            leader = cluster.nodes[1].partition()
            await cluster.until(
                lambda: leader.followers is not None and leader.followers.proposed == frozenset({1, 2, 3})
            )
            cluster.cut(1, 3)
            waiting = asyncio.create_task(cluster.produce(1, b"1"))
            await asyncio.sleep(5)
            assert not waiting.done() and leader.high_watermark == 1
            cluster.heal()
            assert (await waiting).error_code == 0

    run(story())


def test_a_lost_answer_of_the_controller_is_found_out_by_the_image() -> None:
    async def story() -> None:
        async with ReplicaCluster(replica_lag_time_max_ms="2000") as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.cut(1, 3)
            await cluster.produce(1, b"0", acks=1)
            await cluster.until(lambda: bool(cluster.proposals))
            cluster.is_controller_reachable = False  # The set is taken, the answer is not heard.
            await asyncio.sleep(1)
            cluster.heal()
            await cluster.until(lambda: cluster.states[0].isr == (1, 2, 3))
            leader = cluster.nodes[1].partition()
            await cluster.until(lambda: leader.partition_epoch == cluster.states[0].partition_epoch)
            assert leader.followers is not None and leader.followers.proposed is None
            assert leader.high_watermark == 1

    run(story())


# --- readers ----------------------------------------------------------------------------------------------------------


def _asked(offset: int, **more: int) -> list[dict[str, object]]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
    return [{"topic": "t", "partitions": [partition]}]


def test_a_follower_serves_those_who_know_of_replicas_and_only_what_is_committed() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            await cluster.produce(1, b"0")
            await asyncio.sleep(1)
            cluster.cut(1, 3)
            await cluster.produce(1, b"1", acks=1)
            await asyncio.sleep(1)
            follower = cluster.nodes[2]
            assert (follower.partition().log.log_end_offset, follower.partition().high_watermark) == (2, 1)
            for version, code in ((10, NOT_LEADER_OR_FOLLOWER), (11, 0), (12, 0)):
                answer = await follower.ask(ApiKey.FETCH, version, min_bytes=0, topics=_asked(0))
                (found,) = answer.responses[0].partitions
                assert found.error_code == code
                if not code:
                    assert found.high_watermark == 1
                    assert int.from_bytes(bytes(found.records)[57:61], "big") == 1, "one record"
            for epoch, code in ((-1, 0), (0, 0), (1, 75)):
                topics = _asked(0, current_leader_epoch=epoch)
                answer = await follower.ask(ApiKey.FETCH, 12, min_bytes=0, topics=topics)
                assert answer.responses[0].partitions[0].error_code == code

    run(story())


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    async def story() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with ReplicaCluster(replica_selector_class=selector) as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            await cluster.produce(1, b"0")
            await asyncio.sleep(1)

            async def preferred(rack: str, offset: int = 0) -> int:
                answer = await cluster.nodes[1].ask(
                    ApiKey.FETCH, 11, min_bytes=0, topics=_asked(offset), rack_id=rack
                )
                (found,) = answer.responses[0].partitions
                assert found.error_code == 0
                assert (not found.records) == (found.preferred_read_replica >= 0)
                return int(found.preferred_read_replica)

            assert [await preferred(rack) for rack in ("rack-2", "rack-3", "rack-1", "other", "")] == [
                2, 3, -1, -1, -1,
            ]  # fmt: skip
            cluster.cut(1, 3)
            await cluster.until(lambda: cluster.nodes[1].partition().high_watermark == 1)
            await cluster.kill_node(2)
            await asyncio.sleep(0.1)
            assert await preferred("rack-2") == -1, "it is not live"

    run(story())


def test_a_consumer_that_waits_is_woken_by_the_high_watermark_and_not_by_the_append() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            cluster.cut(1, 3)
            node = cluster.nodes[1]
            reading = asyncio.create_task(
                node.ask(ApiKey.FETCH, 12, min_bytes=1, max_wait=120_000, topics=_asked(0))
            )
            await asyncio.sleep(0)
            await cluster.produce(1, b"v", acks=1)
            await asyncio.sleep(2)
            assert not reading.done()
            cluster.heal()
            answer = await asyncio.wait_for(reading, 5)
            assert answer.responses[0].partitions[0].high_watermark == 1
            assert answer.responses[0].partitions[0].records

    run(story())


def test_a_consumer_that_waits_at_a_follower_is_woken_when_enough_is_committed() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            reading = asyncio.create_task(
                cluster.nodes[2].ask(ApiKey.FETCH, 12, min_bytes=1500, max_wait=60_000, topics=_asked(0))
            )
            await asyncio.sleep(0)
            for _ in range(2):
                await cluster.produce(1, b"v" * 600)
                await asyncio.sleep(2)
                assert not reading.done()
            await cluster.produce(1, b"v" * 600)
            answer = await asyncio.wait_for(reading, 2)
            assert answer.responses[0].partitions[0].high_watermark == 3

    run(story())


# --- who may fetch as a follower --------------------------------------------------------------------------------------


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(("entries", "seconds_max"), [({"replica_selector_class": SELECTOR}, 0.1), ({}, 0.6)])
def test_where_consumers_read_from_followers_these_hear_of_what_is_committed_at_once(
    entries: dict[str, Any], seconds_max: float
) -> None:
    async def story() -> None:
        async with ReplicaCluster(brokers=3, **entries) as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
            await asyncio.sleep(5)
            fetchers = [fetcher for number in (2, 3) for fetcher in cluster.nodes[number].fetchers]
            for end in range(1, 6):
                assert (await cluster.produce(1, b"v")).error_code == 0
                await asyncio.sleep(seconds_max)
                assert [cluster.nodes[number].partition().high_watermark for number in (2, 3)] == [end, end]
                await asyncio.sleep(2)
            before = sum(fetcher.requests for fetcher in fetchers)
            await asyncio.sleep(50)
            # Nothing new: each waits its half second.
            assert sum(fetcher.requests for fetcher in fetchers) - before <= 2 * 102

    run(story())


def test_only_replicas_of_this_life_may_fetch_as_followers() -> None:
    async def story() -> None:
        async with ReplicaCluster(brokers=4) as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
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
            assert await code(4, -1) == 75, "the leader may not have heard of it"
            assert await code(4, -1, leader_epoch=-1) == NOT_LEADER_OR_FOLLOWER
            assert await code(2, epoch, leader_epoch=1) == 75
            cluster.elect(1)
            await asyncio.sleep(0.1)
            assert await code(2, epoch) == 74
            cluster.elect(2)
            await asyncio.sleep(0.1)
            assert await code(3, -1, leader_epoch=-1) == NOT_LEADER_OR_FOLLOWER

    run(story())


# --- deletion ---------------------------------------------------------------------------------------------------------


def test_a_deletion_is_answered_when_every_live_replica_has_followed() -> None:
    async def story() -> None:
        async with ReplicaCluster() as cluster:
            await cluster.create_topic(replicas=(1, 2, 3))
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
            cluster.cut(1, 3)
            await asyncio.sleep(1)
            assert await delete(6, timeout_ms=1000) == (REQUEST_TIMED_OUT, -1)
            await cluster.kill_node(3)
            await asyncio.sleep(0.1)
            assert await delete(7) == (0, 7), "who is not live is not waited for"
            cluster.heal()
            cluster.start_node(3)
            await cluster.until(lambda: cluster.nodes[3].partition().log.log_start_offset == 7)

    run(story())


def test_a_follower_that_is_behind_the_leaders_start_begins_there() -> None:
    async def story() -> None:
        async with ReplicaCluster(replica_lag_time_max_ms="1000") as cluster:
            await cluster.create_topic(replicas=(1, 2, 3), internal_segment_bytes="2000")
            await cluster.produce(1, b"first")
            cluster.cut(1, 3)
            await cluster.produce(1, b"second", timeout_ms=60_000)
            for number in range(20):
                await cluster.produce(1, b"%d" % number * 200)
            leader = cluster.nodes[1].partition()
            leader.delete_records(15)
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

    run(story())
