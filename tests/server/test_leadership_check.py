"""A broker that was stopped or cut off does not answer that an offset is gone: the consumer would reset its
position."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.broker.process.cluster_control import FRESH_SECONDS, LeadershipCheck
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import LoopClock
from tests.support.whole_cluster import WholeCluster

OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER = 1, 6
LAST_VERSION_FOR_LEADERS, VERSION = 10, 12


async def fetch(
    cluster: WholeCluster, broker_id: int, offset: int, *, epoch: int = -1, version: int = VERSION
) -> Any:
    """The answer for partition 0 of the topic."""
    answer = await cluster.ask(
        broker_id,
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": epoch,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    return answer.responses[0].partitions[0]


async def end_of_epoch(cluster: WholeCluster, broker_id: int, epoch: int) -> tuple[int, int, int]:
    """Error, epoch and end of an epoch, asked by one that has the broker's own epoch from its metadata."""
    answer = await cluster.ask(
        broker_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        replica_id=-1,
        topics=[
            {
                "topic": "t",
                "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}],
            }
        ],
    )
    row = answer.topics[0].partitions[0]
    return int(row.error_code), row.leader_epoch, row.end_offset


async def begin() -> tuple[WholeCluster, int]:
    """A cluster and the leader of the only partition, with two records on all replicas."""
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    await cluster.until(lambda: all("t" in cluster.image(one).topics for one in cluster.brokers))
    (leader,) = cluster.leaders("t", seen_by=1)
    assert (await cluster.produce(leader, "t", 0, b"a", b"b", acks=-1)).error_code == 0
    return cluster, leader


def cut_off(cluster: WholeCluster, broker_id: int) -> None:
    """From everything but its clients; the registry ends its session, and it does not learn of that."""
    host = cluster.host(broker_id)
    for other in [cluster.host(one) for one in (*cluster.brokers, *cluster.controllers) if one != broker_id]:
        cluster.network.part(host, other)
    cluster.stores[host].sever()
    cluster.stores[host].expire()


async def test_a_replaced_leader_reports_neither_wrong_offsets_nor_wrong_epochs() -> None:
    cluster, old = await begin()
    old_epoch = cluster.image(old).topics["t"].partitions[0].leader_epoch
    cut_off(cluster, old)
    other = next(one for one in cluster.brokers if one != old)
    await cluster.until(lambda: cluster.leaders("t", seen_by=other)[0] not in (old, -1))
    (new,) = cluster.leaders("t", seen_by=other)
    assert (await cluster.produce(new, "t", 0, b"c", b"d", acks=-1)).error_code == 0
    # It still leads, as far as it knows.
    assert cluster.leaders("t", seen_by=old) == [old]
    assert (await fetch(cluster, old, 0, epoch=old_epoch)).error_code == 0
    for _ in range(2):  # each waits for the controller as long as it may
        refused = await fetch(cluster, old, 4, epoch=old_epoch)
        assert refused.error_code == NOT_LEADER_OR_FOLLOWER
        assert await end_of_epoch(cluster, old, old_epoch + 1) == (NOT_LEADER_OR_FOLLOWER, -1, -1)
        await asyncio.sleep(0.5)
    assert cluster.leaders("t", seen_by=old) == [old], "the test came too late"
    # What it does know it says.
    assert await end_of_epoch(cluster, old, old_epoch) == (0, old_epoch, 2)
    assert (await fetch(cluster, new, 4)).error_code == 0
    cluster.network.heal()
    cluster.stores[cluster.host(old)].mend()
    await cluster.until(lambda: cluster.leaders("t", seen_by=old) == [new])


async def test_a_confirmed_leader_answers_that_an_offset_does_not_exist() -> None:
    cluster, leader = await begin()
    epoch = cluster.image(leader).topics["t"].partitions[0].leader_epoch
    for version in (LAST_VERSION_FOR_LEADERS, VERSION):
        await asyncio.sleep(60)  # so that no broker has asked for long
        assert (await fetch(cluster, leader, 3, version=version)).error_code == OFFSET_OUT_OF_RANGE
    # Also to one whose library waits for long between two tries.
    await asyncio.sleep(20)
    assert (await fetch(cluster, leader, 3)).error_code == OFFSET_OUT_OF_RANGE
    # The topic of a reader that has seen later epochs was created again.
    assert await end_of_epoch(cluster, leader, epoch + 7) == (0, -1, -1)


async def test_a_follower_does_not_know_what_lies_beyond_its_end() -> None:
    cluster, leader = await begin()
    follower = next(one for one in cluster.brokers if one != leader)
    partition = cluster.brokers[follower].partitions.get("t", 0)
    await cluster.until(lambda: partition.log.log_end_offset == 2)
    for _ in range(3):
        assert (await fetch(cluster, follower, 3)).error_code == NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(0.5)
    assert (await fetch(cluster, follower, 2)).error_code == 0
    # Below its start clients that know their follower go back to the leader.
    partition.log.advance_log_start(1)
    assert (await fetch(cluster, follower, 0)).error_code == OFFSET_OUT_OF_RANGE


class Controller:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.says = True

    async def catch_up(self, wait_ms_max: int) -> bool:
        self.asked += 1
        await self.answers.wait()
        return self.says


async def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    controller = Controller()
    leadership_check = LeadershipCheck(controller.catch_up, LoopClock())
    assert not leadership_check.is_confirmed()
    await asyncio.sleep(FRESH_SECONDS + 1)  # as when the process stands still
    controller.answers.set()
    await asyncio.sleep(0)
    assert not leadership_check.is_confirmed()
    await asyncio.sleep(1)
    assert leadership_check.is_confirmed()
    controller.says = False
    await asyncio.sleep(FRESH_SECONDS + 1)
    assert not leadership_check.is_confirmed()
    await leadership_check.stop()
    assert not leadership_check.is_confirmed()


async def test_who_waits_for_the_controller_gets_its_word_or_gives_up() -> None:
    controller = Controller()
    leadership_check = LeadershipCheck(controller.catch_up, LoopClock())
    assert not await leadership_check.confirm()  # after a while
    waiting = [asyncio.ensure_future(leadership_check.confirm()) for _ in range(3)]
    await asyncio.sleep(1)
    assert not any(one.done() for one in waiting)
    controller.says = False
    controller.answers.set()
    await asyncio.sleep(0.2)
    controller.says = True  # at the next poll
    assert await asyncio.gather(*waiting) == [True] * 3
    assert controller.asked <= 4
    await asyncio.sleep(100)
    await leadership_check.stop()
    assert not await leadership_check.confirm()


async def test_the_controller_is_asked_for_as_long_as_somebody_may_come_again() -> None:
    controller = Controller()
    controller.answers.set()
    leadership_check = LeadershipCheck(controller.catch_up, LoopClock())
    await asyncio.sleep(100)
    assert controller.asked == 0
    leadership_check.is_confirmed()
    await asyncio.sleep(20)
    assert leadership_check.is_confirmed()
    await asyncio.sleep(100)
    asked = controller.asked
    assert asked <= 2 * 51
    await asyncio.sleep(100)
    assert controller.asked == asked
    assert not leadership_check.is_confirmed()
    await leadership_check.stop()
