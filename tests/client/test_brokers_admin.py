"""Brokers are emptied, filled and left as they were, by the admin client on a whole cluster of virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.admin.reassignments import SIDES
from odradek.client.client import Client
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation import errors
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.image import PartitionImage
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {"replica.fetch.max.bytes": "20000"}


@asynccontextmanager
async def a_cluster(*, brokers: int) -> AsyncIterator[tuple[WholeCluster, Admin]]:
    cluster = await WholeCluster.start(brokers=brokers, controllers=1, entries=ENTRIES)
    bootstrap = ",".join(f"{cluster.host(number)}:{PORT}" for number in range(1, brokers + 1))
    async with Client(bootstrap, network=cluster.network.at("admin"), random=cluster.chance) as client:
        yield cluster, Admin(client)


async def test_a_broker_is_drained_and_can_be_stopped_for_good() -> None:
    async with a_cluster(brokers=4) as (cluster, admin):
        for name in ("a", "b"):
            assert await cluster.create_topic(name, partitions=6, replicas=3) == 0
        for number in range(6):
            leader = cluster.leaders("a", seen_by=1)[number]
            await cluster.produce(leader, "a", number, b"x" * 100, acks=-1)
        plan = await admin.brokers.drain(4)
        assert plan
        assert all(4 not in replicas for replicas in plan.values())
        await cluster.until(lambda: all(4 not in one.replicas for one in everything(cluster)))
        progress = await admin.brokers.drain_progress(4)
        assert (progress.is_done, progress.is_stuck, progress.bytes_left) == (True, False, 0)
        assert [(one.id, one.is_cordoned, one.replicas) for one in await admin.brokers.list()] == [
            (1, False, 12),
            (2, False, 12),
            (3, False, 12),
            (4, True, 0),
        ]
        assert await cluster.create_topic("c", partitions=8, replicas=3) == 0
        assert all(4 not in one.replicas for one in everything(cluster))
        await cluster.stop_broker(4)
        assert (await admin.brokers.drain_progress(4)).is_done


def everything(cluster: WholeCluster) -> list[PartitionImage]:
    return [one for topic in cluster.image(1).topics.values() for one in topic.partitions]


async def test_a_drain_is_slowed_down_watched_and_taken_back() -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        assert await cluster.create_topic("t", partitions=3, replicas=2) == 0
        where = next(
            TopicPartition("t", number)
            for number, one in enumerate(cluster.image(1).topics["t"].partitions)
            if 3 in one.replicas
        )
        leader = cluster.leaders("t", seen_by=1)[where.partition]
        for _ in range(30):
            await cluster.produce(leader, "t", where.partition, b"x" * 10_000, acks=-1)
        before = await admin.reassignments.assignment()
        plan = await admin.brokers.drain(3, bytes_per_second=100)
        assert where in plan
        # Those with nothing in them arrive although none may flow.
        await cluster.until(lambda: moving(cluster) == 1)
        progress = await admin.brokers.drain_progress(3)
        assert (progress.replicas, progress.moving, progress.is_done, progress.is_stuck) == (
            1,
            1,
            False,
            False,
        )
        assert 150_000 < progress.bytes_left <= 320_000
        under_way = await admin.reassignments.under_way()
        assert list(under_way) == [where]
        assert under_way[where].target == plan[where]
        assert await admin.reassignments.under_way([TopicPartition("t", 99)]) == {}

        # Asked again it is the same, at another rate.
        assert await admin.brokers.drain(3, bytes_per_second=200) == {where: plan[where]}
        assert cluster.brokers[leader].partitions.context.throttles.leader.rate == 200
        assert await admin.reassignments.under_way() == under_way

        assert await admin.brokers.undrain(3) == (where,)
        assert moving(cluster) == 0
        assert sorted((await admin.reassignments.assignment())[where]) == sorted(before[where])
        progress = await admin.brokers.drain_progress(3)
        assert (progress.is_cordoned, progress.is_stuck) == (False, True)
        (refusal,) = (await admin.reassignments.cancel([where])).values()
        assert isinstance(refusal, errors.NoReassignmentInProgress)
        assert await admin.reassignments.cancel() == {}

        # What had moved comes back with a spread, and nothing is throttled for ever.
        await admin.brokers.lift_throttles()
        assert await throttles(admin, "t") == set()
        await admin.brokers.execute(await admin.brokers.plan_spread([3]))
        await cluster.until(lambda: moving(cluster) == 0)
        assert {one.replicas for one in await admin.brokers.list()} == {2}


async def throttles(admin: Admin, topic: str) -> set[str]:
    """The throttles' settings that a topic and three brokers have."""
    found: set[str] = set()
    for kind, name, key in (
        *((ResourceType.TOPIC, topic, f"{side}.replication.throttled.replicas") for side in SIDES),
        *(
            (ResourceType.BROKER, one, f"{side}.replication.throttled.rate")
            for side in SIDES
            for one in "123"
        ),
    ):
        entries = await admin.configs.describe(kind, name, keys=[key])
        found |= {f"{name} {entry.name}={entry.value}" for entry in entries if not entry.is_default}
    return found


async def test_only_throttles_of_ended_moves_are_lifted() -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        # Each on a broker of its own: one throttled leader would hold up the other's move as well.
        for leader, name in enumerate(("whole", "quick", "slow"), 1):
            assert await cluster.create_topic(name, assignment=[[leader]]) == 0
        where = TopicPartition("slow", 0)
        for _ in range(5):
            await cluster.produce(leader, "slow", 0, b"x" * 10_000, acks=1)
        whole = ConfigChange("leader.replication.throttled.replicas", "*")
        await admin.configs.alter(ResourceType.TOPIC, "whole", [whole])
        quick = TopicPartition("quick", 0)
        await admin.brokers.execute({where: (1, 2, 3)}, bytes_per_second=1)
        await admin.brokers.execute({quick: (1, 2, 3)}, bytes_per_second=1)
        await cluster.until(lambda: not cluster.image(1).topics["quick"].partitions[0].adding)
        assert list(await admin.reassignments.under_way()) == [where]

        # The brokers' rates are those of what moves still.
        await admin.brokers.lift_throttles([quick])
        left = await throttles(admin, "quick")
        assert {one.partition(" ")[0] for one in left} == {"1", "2", "3"}
        assert len(await throttles(admin, "slow")) == len(left) + len(SIDES)
        await admin.reassignments.cancel()
        await admin.brokers.lift_throttles()
        assert await throttles(admin, "slow") == set()
        assert await throttles(admin, "whole") == {"whole leader.replication.throttled.replicas=*"}


@pytest.mark.parametrize("wanted", [(1, 9), (1, 1)])
async def test_a_plan_that_is_refused_leaves_nothing_throttled(wanted: tuple[int, ...]) -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
        for plan in ({TopicPartition("t", 0): (1, 2, 3, *wanted)}, {TopicPartition("t", 0): wanted}):
            with pytest.raises(errors.RequestError):
                await admin.brokers.execute(plan, bytes_per_second=1000)
            assert await throttles(admin, "t") == set()


def moving(cluster: WholeCluster) -> int:
    return sum(bool(one.adding or one.removing) for one in cluster.image(1).topics["t"].partitions)


@pytest.mark.thorough
async def test_new_brokers_are_filled_and_replicas_made_more_and_fewer() -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        assert await cluster.create_topic("t", partitions=9, replicas=1) == 0
        await cluster.start_broker(4)
        await cluster.until(lambda: 4 in cluster.image(1).brokers)
        plan = await admin.brokers.execute(await admin.brokers.plan_spread([4]))
        assert len(plan) == 2
        await cluster.until(lambda: moving(cluster) == 0)
        grown = await admin.brokers.plan_factor(["t"], factor=3)
        assert len(grown) == 9
        refused = await admin.reassignments.reassign(grown, may_change_factor=False)
        assert all(isinstance(one, errors.InvalidReplicationFactor) for one in refused.values())
        await admin.brokers.execute(grown)
        await cluster.until(lambda: moving(cluster) == 0)
        assert {len(one) for one in (await admin.reassignments.assignment(["t"])).values()} == {3}
        await admin.brokers.execute(await admin.brokers.plan_factor(["t"], factor=2))
        assert {len(one) for one in (await admin.reassignments.assignment(["t"])).values()} == {2}


async def test_what_cannot_be_is_refused_before_anything_is_changed() -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
        with pytest.raises(errors.InvalidReplicationFactor, match="lower its replication factor"):
            await admin.brokers.drain(2)
        assert not any(one.is_cordoned for one in await admin.brokers.list())
        with pytest.raises(errors.OdradekError, match="broker id"):
            await admin.brokers.cordon(9)
        with pytest.raises(errors.BrokerNotAvailable, match=r"\[9\]"):
            await admin.brokers.plan_spread([9])
        with pytest.raises(errors.UnknownTopicOrPartition, match="no-such"):
            await admin.brokers.plan_factor(["no-such"], factor=2)


async def test_leaders_are_elected() -> None:
    async with a_cluster(brokers=3) as (cluster, admin):
        assert await cluster.create_topic("t", partitions=3, replicas=3) == 0
        await cluster.stop_broker(3)
        await cluster.start_broker(3)
        await cluster.until(lambda: all(len(one.isr) == 3 for one in cluster.image(1).topics["t"].partitions))
        led = await admin.reassignments.elect_leaders()
        assert len(led) == 1
        assert set(led.values()) == {None}
        again = await admin.reassignments.elect_leaders(led)
        assert [type(one) for one in again.values()] == [errors.ElectionNotNeeded]
        unclean = await admin.reassignments.elect_leaders([*led, TopicPartition("t", 9)], unclean=True)
        assert [type(one) for one in unclean.values()] == [
            errors.ElectionNotNeeded,
            errors.UnknownTopicOrPartition,
        ]


async def test_a_name_is_no_id_of_a_broker() -> None:
    async with a_cluster(brokers=1) as (_, admin):
        with pytest.raises(errors.InvalidRequest, match="'one' is not the id of a broker: give its number"):
            await admin.configs.describe(ResourceType.BROKER, "one")
