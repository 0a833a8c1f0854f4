"""Conversions under trouble: members that fall silent during them, and removals by administrators."""

from __future__ import annotations

import asyncio

from odradek.foundation.errors import FencedInstanceId, UnknownMemberId
from odradek.wire.protocol.consumer import build_assignment, build_subscription
from tests.support.consumer_members import ConsumerMember, converge
from tests.support.coordinator_world import GroupWorld, in_world, result_of, turns
from tests.support.stories import told_by

PROTOCOLS = (("cooperative-sticky", build_subscription(["t"], version=1)),)


async def classic_group_of_two(world: GroupWorld) -> list[str]:
    """Two classic members with two partitions each, which will be silent; their ids."""
    joins = [
        world.join("g", requires_known_member_id=False, protocols=PROTOCOLS, session_timeout_ms=10_000)
        for _ in range(2)
    ]
    joined = await asyncio.gather(*joins)
    ids = [join.member_id for join in joined]
    shares = {
        member_id: build_assignment([("t", (2 * number, 2 * number + 1))], version=1)
        for number, member_id in enumerate(ids)
    }
    synced = await asyncio.gather(*(world.sync(join, shares) for join in joined))
    assert [sync.error for sync in synced] == [None, None]
    return ids


def members(world: GroupWorld) -> set[str]:
    return {row.member_id for row in world.groups.admin.describe_consumer_group("g").members}


@told_by(in_world, topics={"t": 4})
async def test_classic_members_silent_since_the_upgrade_expire(world: GroupWorld) -> None:
    silent = await classic_group_of_two(world)
    member = ConsumerMember(world, "a")
    await member.must_beat()
    assert members(world) == {"a", *silent}
    for _ in range(4):
        await asyncio.sleep(3)
        await member.heartbeat()
    assert members(world) == {"a"}
    await converge([member])
    assert member.count() == 4


@told_by(in_world, topics={"t": 4})
async def test_a_failed_upgrade_keeps_the_sessions(world: GroupWorld) -> None:
    await classic_group_of_two(world)
    world.log.fail_with = OSError("no")
    await ConsumerMember(world, "a").heartbeat()
    world.log.fail_with = None
    assert world.groups.admin.list_groups()[0].group_type == "classic"
    await asyncio.sleep(61)
    assert world.groups.admin.list_groups()[0].state == "Empty"


@told_by(in_world, topics={"t": 4})
async def test_an_administrator_removes_members_of_either_protocol(world: GroupWorld) -> None:
    dynamic, static = ConsumerMember(world, "a"), ConsumerMember(world, "b", instance_id="i")
    await converge([dynamic, static])
    refused = await result_of(world.groups.leave("g", [("a", "i"), ("x", None), ("", "j")]))
    assert [type(departure.error) for departure in refused] == [
        FencedInstanceId,
        UnknownMemberId,
        UnknownMemberId,
    ]
    left = await result_of(world.groups.leave("g", [("", "i"), ("a", None), ("", "i")]))
    assert [tuple(departure) for departure in left] == [
        ("", "i", None),
        ("a", None, None),
        ("", "i", None),
    ]
    assert members(world) == set()


@told_by(in_world, topics={"t": 4})
async def test_removing_the_last_consumer_member_makes_the_group_classic(world: GroupWorld) -> None:
    await classic_group_of_two(world)
    await ConsumerMember(world, "a", instance_id="i").must_beat()
    (left,) = await result_of(world.groups.leave("g", [("", "i")]))
    assert left.error is None
    await turns()
    assert world.groups.admin.list_groups()[0].group_type == "classic"
    assert len(world.groups.admin.describe("g").members) == 2


@told_by(in_world, topics={"t": 4})
async def test_a_static_member_that_left_for_now_keeps_the_group_reconciling(world: GroupWorld) -> None:
    static = ConsumerMember(world, "a", instance_id="i")
    await static.must_beat()
    assert world.groups.admin.describe_consumer_group("g").state == "Stable"
    await static.leave(epoch=-2)
    assert world.groups.admin.describe_consumer_group("g").state == "Reconciling"
    back = ConsumerMember(world, "b", instance_id="i")
    await back.must_beat()
    described = world.groups.admin.describe_consumer_group("g")
    assert (described.state, back.count(), len(described.members)) == ("Stable", 4, 1)
