"""Partitions move between the brokers of a whole cluster, and nothing that was acknowledged is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.broker.coordination.shard import ShardState
from odradek.wire.protocol.api import ApiKey
from tests.support.polling import eventually
from tests.support.whole_cluster import WholeCluster

NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR = 85, 39, 38
NOT_COORDINATOR = 16


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


async def test_a_partition_moves_with_all_that_it_holds_and_its_leader() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    (home,) = cluster.image(1).topics["t"].partitions[0].replicas
    away = home % 3 + 1
    await cluster.produce(home, "t", 0, b"a", b"b", acks=-1)
    assert await reassign(cluster, "t", [away], through=away) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=away) == [(away,)])
    assert cluster.leaders("t", seen_by=away) == [away]
    assert cluster.brokers[away].partitions.get("t", 0).high_watermark == 2
    answer = await cluster.produce(away, "t", 0, b"c", acks=-1)
    assert (answer.error_code, answer.base_offset) == (0, 2)
    await cluster.until(lambda: len(cluster.brokers[home].partitions) == 0)
    assert await under_way(cluster) == {}


async def test_it_ends_though_controllers_and_a_new_replica_die_meanwhile() -> None:
    cluster = await WholeCluster.start(brokers=4, controllers=3)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    old = cluster.replicas("t", seen_by=1)[0]
    new = [one for one in (1, 2, 3, 4) if one not in old]
    await cluster.produce(old[0], "t", 0, *[b"x"] * 50, acks=-1)
    await cluster.kill_broker(new[1])
    through = old[1]
    # The controller has not noticed: the move begins, and waits for the one that is dead.
    assert await reassign(cluster, "t", new, through=through) in ([0], [INVALID_REPLICA_ASSIGNMENT])
    if not await under_way(cluster, through):
        await cluster.start_broker(new[1])
        assert await reassign(cluster, "t", new, through=through) == [0]
    active = cluster.active
    assert active is not None
    cluster.kill_controller(active.id)
    await cluster.until(lambda: cluster.active is not None)
    if new[1] not in cluster.brokers:
        assert (await under_way(cluster, through))["t", 0] == (
            [*new, *sorted(old)],
            sorted(new),
            sorted(old),
        )
        await cluster.start_broker(new[1])
    await cluster.until(lambda: cluster.replicas("t", seen_by=through) == [tuple(new)])
    await cluster.until(lambda: cluster.leaders("t", seen_by=new[0])[0] in new)
    leader = cluster.leaders("t", seen_by=new[0])[0]
    assert cluster.brokers[leader].partitions.get("t", 0).high_watermark == 50
    await cluster.until(lambda: all(len(cluster.brokers[one].partitions) == 0 for one in old))


async def test_a_move_that_cannot_end_is_shown_taken_back_and_replaced() -> None:
    cluster = await WholeCluster.start(brokers=4, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    old = list(cluster.replicas("t", seen_by=1)[0])
    new = [one for one in (1, 2, 3, 4) if one not in old]
    leader, through = old[0], old[1]
    await cluster.produce(leader, "t", 0, *[b"x"] * 50, acks=-1)
    # It lives, and learns of everything, but what it fetches never arrives.
    cluster.network.part(cluster.host(leader), cluster.host(new[0]))
    assert await reassign(cluster, "t", [new[0], old[1]], through=through) == [0]
    assert (await under_way(cluster))["t", 0] == ([new[0], old[1], old[0]], [new[0]], [old[0]])
    described = await cluster.ask(
        through, ApiKey.METADATA, 12, topics=[{"name": "t"}], allow_auto_topic_creation=False
    )
    (shown,) = described.topics[0].partitions
    assert (list(shown.replica_nodes), sorted(shown.isr_nodes)) == ([new[0], old[1], old[0]], sorted(old))
    assert (await cluster.produce(leader, "t", 0, b"meanwhile", acks=-1)).error_code == 0

    assert await reassign(cluster, "t", [new[1], old[1]], through=through) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=through) == [(new[1], old[1])])
    await cluster.until(
        lambda: ("t", 0) not in kept(cluster, leader) and ("t", 0) not in kept(cluster, new[0])
    )

    leader = cluster.leaders("t", seen_by=through)[0]
    cluster.network.part(cluster.host(leader), cluster.host(new[0]))
    assert await reassign(cluster, "t", [new[0], new[1]], through=through) == [0]
    assert await reassign(cluster, "t", None, through=through) == [0]
    assert await under_way(cluster) == {}
    assert sorted(cluster.replicas("t", seen_by=through)[0]) == sorted([new[1], old[1]])
    assert await reassign(cluster, "t", None, through=through) == [NO_REASSIGNMENT_IN_PROGRESS]
    assert cluster.brokers[leader].partitions.get("t", 0).high_watermark == 51


def kept(cluster: WholeCluster, broker_id: int) -> set[tuple[str, int]]:
    return {(one.topic_partition[0], one.topic_partition[1]) for one in cluster.brokers[broker_id].partitions}


async def test_the_replication_factor_changes_if_the_request_allows_it() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=2, replicas=1) == 0
    wanted = [[1, 2, 3], [2, 3, 1]]
    refused = await reassign(cluster, "t", *wanted, allow_replication_factor_change=False)
    assert refused == [INVALID_REPLICATION_FACTOR] * 2
    assert await reassign(cluster, "t", *wanted) == [0, 0]
    await cluster.until(
        lambda: [sorted(one.isr) for one in cluster.image(1).topics["t"].partitions] == [[1, 2, 3]] * 2
    )
    await cluster.until(lambda: cluster.replicas("t", seen_by=1) == [(1, 2, 3), (2, 3, 1)])
    assert await under_way(cluster) == {}
    assert await reassign(cluster, "t", [3], [3, 1]) == [0, 0]
    assert cluster.replicas("t", seen_by=1) == [(3,), (3, 1)]


async def test_partitions_are_added_while_others_move() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    (home,) = cluster.replicas("t", seen_by=1)[0]
    away = home % 3 + 1
    cluster.network.part(cluster.host(home), cluster.host(away))
    assert await reassign(cluster, "t", [away]) == [0]
    topics = [{"name": "t", "count": 2, "assignments": None}]
    grown = await cluster.ask(1, ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout=1, validate_only=False)
    assert [int(one.error_code) for one in grown.results] == [0]
    assert [len(one) for one in cluster.replicas("t", seen_by=1)] == [2, 1]
    assert (await under_way(cluster))["t", 0] == ([away, home], [away], [home])
    cluster.network.heal()
    await cluster.until(lambda: cluster.replicas("t", seen_by=1)[0] == (away,))


async def test_groups_go_on_where_their_partition_moved() -> None:
    entries = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=entries)
    assert await cluster.create_topic("t", partitions=1) == 0
    home = await cluster.coordinator("g", through=1)
    assert await cluster.commit_offset(home, 7) == 0
    away = 3 - home
    assert await reassign(cluster, "__consumer_offsets", [away]) == [0]
    await cluster.until(lambda: cluster.replicas("__consumer_offsets", seen_by=home) == [(away,)])
    assert await cluster.committed_offset(home) == (NOT_COORDINATOR, -1)
    assert await cluster.coordinator("g", through=home) == away
    found = await eventually(
        "the group's offsets are loaded", lambda: cluster.committed_offset(away), lambda seen: not seen[0]
    )
    assert found == (0, 7)


async def test_a_coordinator_keeps_its_groups_where_only_a_follower_leaves() -> None:
    entries = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    cluster = await WholeCluster.start(brokers=3, controllers=1, entries=entries)
    home = await cluster.coordinator("g", through=1)
    groups = cluster.brokers[home].coordinators.groups
    (shard,) = groups.runtime.shards()
    led = cluster.brokers[home].partitions.get("__consumer_offsets", 0)
    epoch = led.leader_epoch
    assert await reassign(cluster, "__consumer_offsets", [home, home % 3 + 1], through=home) == [0]
    await cluster.until(lambda: led.leader_epoch > epoch)
    assert groups.runtime.shards() == [shard]
    assert shard.state is ShardState.ACTIVE


async def test_a_broker_has_no_log_of_a_replica_that_moved_in_its_absence() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    first, gone = cluster.replicas("t", seen_by=1)[0]
    (new,) = {1, 2, 3} - {first, gone}
    await cluster.produce(first, "t", 0, b"x", acks=-1)
    await cluster.stop_broker(gone)
    assert await reassign(cluster, "t", [first, new], through=first) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=first) == [(first, new)])
    broker = await cluster.start_broker(gone)
    assert list(broker.log_manager.logs()) == []
    # And it can have it again.
    assert await reassign(cluster, "t", [gone, new], through=first) == [0]
    await cluster.until(lambda: cluster.replicas("t", seen_by=first) == [(gone, new)])
    assert cluster.brokers[gone].partitions.get("t", 0).log.log_end_offset == 1


async def test_a_replica_that_has_not_left_yet_does_not_count_when_moved_back() -> None:
    """It gives up its log when it hears that it left, and begins with nothing."""
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    leader, other, late = cluster.replicas("t", seen_by=1)[0]
    await cluster.produce(leader, "t", 0, b"a", b"b", acks=-1)
    (controller_id,) = cluster.controllers
    cluster.network.part(cluster.host(late), cluster.host(controller_id))
    for wanted in ([leader, other], [leader, other, late]):
        assert await reassign(cluster, "t", wanted, through=leader) == [0]
    await asyncio.sleep(3)
    led = cluster.brokers[leader].partitions.get("t", 0)
    assert led.replica.in_sync_replicas == (leader, other)
    assert cluster.brokers[late].partitions.get("t", 0).log.log_end_offset == 2, "it has not heard"
    cluster.network.heal()
    await cluster.until(lambda: late in led.replica.in_sync_replicas)
    assert cluster.brokers[late].partitions.get("t", 0).log.log_end_offset == 2


async def test_a_waiting_producer_is_answered_although_a_replica_leaves() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    leader, slow, leaving = cluster.replicas("t", seen_by=1)[0]
    cluster.network.part(cluster.host(leader), cluster.host(slow))
    waiting = asyncio.ensure_future(cluster.produce(leader, "t", 0, b"a", acks=-1))
    led = cluster.brokers[leader].partitions.get("t", 0)
    epoch = led.leader_epoch
    assert await reassign(cluster, "t", [leader, slow], through=leader) == [0]
    await cluster.until(lambda: led.leader_epoch > epoch)
    assert led.replica.replicas == (leader, slow)
    assert not waiting.done()
    cluster.network.heal()
    assert int((await waiting).error_code) == 0
    assert led.high_watermark == 1
    assert len(cluster.brokers[leaving].partitions) == 0
