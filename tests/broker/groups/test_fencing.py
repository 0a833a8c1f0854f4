"""A fenced group has no members and admits none, and its offsets may be changed. Afterwards members join again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from odradek.broker.groups.classic.group import ClassicGroup, GroupState
from odradek.broker.groups.consumer.requests import HeartbeatResult
from odradek.foundation.errors import CoordinatorLoadInProgress, OdradekError, UnknownMemberId
from odradek.metadata.image.group_configs import FENCED_UNTIL_KEY
from odradek.metadata.image.image import ResourceKind
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, turns
from tests.support.stories import told_by

FENCE_SECONDS = 60


def fence(world: GroupWorld, *, fenced: bool = True, group_id: str = "g") -> None:
    until = world.clock.wall_ms() + FENCE_SECONDS * 1000
    texts = {(ResourceKind.GROUP, group_id): {FENCED_UNTIL_KEY: str(until)}} if fenced else {}
    world.images.replace(replace(world.images.current, configs=texts))


async def commit(
    world: GroupWorld, offset: int, *, member_id: str = "", generation: int = -1
) -> list[OdradekError | None]:
    return await world.commit(("t", 0, offset), member_id=member_id, generation=generation)


def classic(world: GroupWorld) -> ClassicGroup:
    group = world.groups.runtime.shard("g").machine.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


@told_by(in_world)
async def test_classic_members_are_out_until_the_fence_falls(world: GroupWorld) -> None:
    joined = await world.member()
    assert await commit(world, 5, member_id=joined.member_id, generation=joined.generation) == [None]
    fence(world)
    await turns()
    assert classic(world).rebalance.state is GroupState.EMPTY
    with pytest.raises(UnknownMemberId, match=r"fenced \(odradek\.fenced\.until\)"):
        world.groups.heartbeat(
            "g",
            member_id=joined.member_id,
            instance_id=None,
            generation=joined.generation,
        )
    with pytest.raises(UnknownMemberId, match="fenced"):
        await commit(world, 9, member_id=joined.member_id, generation=joined.generation)
    refused = await world.join()
    assert isinstance(refused.error, CoordinatorLoadInProgress)
    assert await commit(world, 2) == [None], "an administrator sets offsets at the same time"
    fence(world, fenced=False)
    assert (await world.member()).error is None
    assert [row[3] for row in world.groups.offsets.list_committed()] == [2]


@told_by(in_world)
async def test_members_waiting_for_a_rebalance_are_answered_at_once(world: GroupWorld) -> None:
    first = world.join(requires_known_member_id=False)
    await asyncio.sleep(0.1)
    fence(world)
    assert isinstance((await asyncio.wait_for(first, 0.1)).error, UnknownMemberId)
    assert classic(world).rebalance.state is GroupState.EMPTY


@told_by(in_world)
async def test_other_groups_and_other_settings_change_nothing(world: GroupWorld) -> None:
    joined = await world.member()
    fence(world, group_id="other")
    world.images.replace(
        replace(
            world.images.current,
            configs={(ResourceKind.GROUP, "g"): {"consumer.session.timeout.ms": "50000"}},
        )
    )
    await turns()
    world.groups.heartbeat("g", member_id=joined.member_id, instance_id=None, generation=joined.generation)


@told_by(in_world, topics={"t": 2})
async def test_members_of_the_consumer_protocol_are_out_until_the_fence_falls(world: GroupWorld) -> None:
    member, other = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    assert isinstance(await member.heartbeat(), HeartbeatResult)
    assert isinstance(await other.heartbeat(), HeartbeatResult)
    fence(world)
    await turns()
    assert not world.groups.runtime.shard("g").machine.groups["g"].members
    with pytest.raises(UnknownMemberId, match="fenced"):
        await commit(world, 9, member_id="a", generation=member.epoch)
    assert isinstance(await member.heartbeat(), UnknownMemberId)
    assert isinstance(await ConsumerMember(world, "a").heartbeat(), CoordinatorLoadInProgress)
    assert await commit(world, 2) == [None]
    fence(world, fenced=False)
    assert isinstance(await ConsumerMember(world, "a").heartbeat(), HeartbeatResult)


@told_by(in_world, topics={"t": 1})
async def test_a_member_may_leave_a_fenced_group_with_a_failed_log(world: GroupWorld) -> None:
    member = ConsumerMember(world, "a")
    await member.heartbeat()
    world.log.is_held = True
    fence(world)
    await turns()
    heartbeat = asyncio.ensure_future(member.heartbeat())
    await turns()
    world.log.release()
    assert isinstance(await heartbeat, UnknownMemberId)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@told_by(in_world, topics={"t": 1})
async def test_a_group_fenced_during_a_move_is_loaded_empty(world: GroupWorld, protocol: str) -> None:
    if protocol == "classic":
        await world.member()
    else:
        await ConsumerMember(world, "a").heartbeat()
    await world.groups.stop()
    fence(world)
    await world.restart()
    await turns(10)
    assert not world.groups.runtime.shard("g").machine.groups["g"].members
    assert isinstance((await world.join()).error, CoordinatorLoadInProgress)


@told_by(in_world)
async def test_a_fence_whose_maker_is_gone_falls_by_itself(world: GroupWorld) -> None:
    fence(world)
    assert isinstance((await world.join()).error, CoordinatorLoadInProgress)
    await asyncio.sleep(FENCE_SECONDS)
    assert (await world.member()).error is None
