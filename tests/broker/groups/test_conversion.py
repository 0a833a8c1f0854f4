"""Groups change between the classic and the consumer protocol, empty or with members at work."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.groups.classic.members import JoinResult
from odradek.foundation import errors
from odradek.wire.protocol.consumer import build_assignment, build_subscription, parse_assignment
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, result_of, topic_id, turns
from tests.support.stories import told_by

T = topic_id("t")
ALL: tuple[int, ...] = (0, 1, 2, 3)


def protocols(owned: tuple[int, ...] = ()) -> tuple[tuple[str, bytes], ...]:
    return (("cooperative-sticky", build_subscription(["t"], version=1, owned_partitions=[("t", owned)])),)


async def classic_member(world: GroupWorld, **fields: str) -> JoinResult:
    """A classic member alone in its group, with all four partitions."""
    joined = await world.join(
        "g", requires_known_member_id=False, protocols=protocols(), instance_id=fields.get("instance_id")
    )
    everything = build_assignment([("t", (0, 1, 2, 3))], version=1)
    synced = await world.sync(joined, {joined.member_id: everything}, instance_id=fields.get("instance_id"))
    assert synced.error is None
    return joined


def group_type(world: GroupWorld) -> str:
    return world.groups.admin.list_groups()[0].group_type


async def classic_step(
    world: GroupWorld, member_id: str, generation: int, owned: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """What a classic consumer does: heartbeat, and join and sync when the answer says so. Gives generation and
    partitions.
    """
    try:
        world.groups.heartbeat("g", member_id=member_id, instance_id=None, generation=generation)
    except errors.RebalanceInProgress:
        joined = await world.join("g", member_id, protocols=protocols(owned))
        assert joined.error is None, joined.error
        synced = await world.sync(joined)
        if isinstance(synced.error, errors.RebalanceInProgress):
            return joined.generation, owned
        assert synced.error is None, synced.error
        return joined.generation, dict(parse_assignment(synced.assignment).partitions).get("t", ())
    return generation, owned


@told_by(in_world, topics={"t": 4})
async def test_an_empty_classic_group_becomes_a_consumer_group_and_back(world: GroupWorld) -> None:
    joined = await classic_member(world)
    await result_of(world.groups.leave("g", [(joined.member_id, None)]))
    await turns()
    member = ConsumerMember(world, "a")
    await member.must_beat()
    assert group_type(world) == "consumer"
    await world.restart()
    assert group_type(world) == "consumer"
    await member.leave()
    again = await classic_member(world)
    assert (again.generation, group_type(world)) == (1, "classic")
    await world.restart()
    assert group_type(world) == "classic"


@told_by(in_world, topics={"t": 4})
async def test_a_classic_group_at_work_becomes_a_consumer_group_and_shares(world: GroupWorld) -> None:
    joined = await classic_member(world)
    member = ConsumerMember(world, "new")
    first = await member.must_beat()
    assert group_type(world) == "consumer"
    assert (first.member_epoch, first.assigned) == (2, {})
    generation, owned = joined.generation, ALL
    for _ in range(4):
        generation, owned = await classic_step(world, joined.member_id, generation, owned)
        await member.must_beat()
        assert not set(owned) & member.owned.get(T, frozenset())
    assert (generation, len(owned), member.count()) == (2, 2, 2)
    await world.restart()
    described = world.groups.admin.describe_consumer_group("g")
    assert described.state == "Stable"
    assert [row.member.classic is None for row in described.members].count(False) == 1
    assert (await classic_step(world, joined.member_id, generation, owned)) == (generation, owned)


@told_by(in_world, topics={"t": 4})
async def test_when_the_last_consumer_member_leaves_the_group_is_classic_again(world: GroupWorld) -> None:
    joined = await classic_member(world)
    member = ConsumerMember(world, "new")
    await member.must_beat()
    generation, owned = joined.generation, ALL
    for _ in range(3):
        generation, owned = await classic_step(world, joined.member_id, generation, owned)
        await member.must_beat()
    await member.leave()
    assert group_type(world) == "classic"
    with pytest.raises(errors.RebalanceInProgress):
        world.groups.heartbeat("g", member_id=joined.member_id, instance_id=None, generation=generation)
    again = await world.join("g", joined.member_id, protocols=protocols(owned))
    assert again.error is None
    assert again.leader == joined.member_id
    assert again.generation > generation
    await world.restart()
    assert group_type(world) == "classic"


@told_by(in_world, topics={"t": 4})
async def test_when_the_consumer_member_dies_the_group_is_classic_again(world: GroupWorld) -> None:
    joined = await classic_member(world)
    await ConsumerMember(world, "new").must_beat()
    generation, owned = joined.generation, ALL
    for _ in range(20):
        if group_type(world) == "classic":
            break
        generation, owned = await classic_step(world, joined.member_id, generation, owned)
        await asyncio.sleep(3)
    assert group_type(world) == "classic"


@told_by(in_world, topics={"t": 4})
async def test_a_static_member_that_downgrades_converts_the_group(world: GroupWorld) -> None:
    member = ConsumerMember(world, "a", instance_id="i1")
    await member.must_beat()
    joined = await world.join(instance_id="i1", protocols=protocols())
    assert joined.error is None
    assert group_type(world) == "classic"
    synced = await world.sync(joined, instance_id="i1")
    assert parse_assignment(synced.assignment).partitions == (("t", (0, 1, 2, 3)),)


@told_by(in_world, topics={"t": 4})
async def test_waiting_joins_are_answered_to_rejoin(world: GroupWorld) -> None:
    first = await classic_member(world)
    waiting = world.join("g", requires_known_member_id=False, protocols=protocols())
    await turns()
    assert not waiting.done()
    await ConsumerMember(world, "new").must_beat()
    assert isinstance((await waiting).error, errors.RebalanceInProgress)
    assert group_type(world) == "consumer"
    stranger = await world.join("g", protocols=protocols())
    assert isinstance(stranger.error, errors.MemberIdRequired)
    member = await world.join("g", stranger.member_id, protocols=protocols())
    assert (member.error, member.leader) == (None, "")
    odd = await world.join("g", requires_known_member_id=False, protocols=(("other", b"\0\0\0\0\0\0"),))
    assert isinstance(odd.error, errors.InconsistentGroupProtocol)
    departures = await result_of(
        world.groups.leave("g", [(first.member_id, None), ("nobody", None), ("new", None)])
    )
    assert departures[0].error is departures[2].error is None
    assert isinstance(departures[1].error, errors.UnknownMemberId)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_it(policy: str) -> None:
    async def story(world: GroupWorld) -> None:
        await classic_member(world)
        answer = await ConsumerMember(world, "new").heartbeat()
        assert isinstance(answer, errors.GroupIdNotFound)
        assert policy in str(answer)

    in_world(story, topics={"t": 4}, group_consumer_migration_policy=policy)


@told_by(in_world, topics={"t": 4})
async def test_a_conversion_that_cannot_be_written_leaves_the_group_as_it_was(world: GroupWorld) -> None:
    joined = await classic_member(world)
    world.log.fail_with = errors.NotEnoughReplicas("none")
    assert isinstance(await ConsumerMember(world, "new").heartbeat(), errors.CoordinatorNotAvailable)
    world.log.fail_with = None
    assert group_type(world) == "classic"
    world.groups.heartbeat("g", member_id=joined.member_id, instance_id=None, generation=1)
    await asyncio.sleep(11)
    await turns()
    assert world.groups.admin.describe("g").members == []
