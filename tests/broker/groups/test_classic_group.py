"""Groups of the classic protocol, as stories of their members."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.groups.classic.members import JoinResult
from odradek.foundation import errors
from tests.support.coordinator_world import GroupWorld, done, in_world, result_of, turns
from tests.support.stories import told_by


def heartbeat(world: GroupWorld, joined: JoinResult, *, generation: int | None = None) -> None:
    world.groups.heartbeat(
        "g",
        member_id=joined.member_id,
        instance_id=None,
        generation=joined.generation if generation is None else generation,
    )


async def known_id(world: GroupWorld) -> str:
    """An id that the coordinator handed out."""
    first = await world.join()
    assert isinstance(first.error, errors.MemberIdRequired)
    assert first.member_id == first.error.member_id
    return first.member_id


async def two_members(world: GroupWorld) -> tuple[JoinResult, JoinResult]:
    """A stable group of two; the first leads."""
    first, second = await asyncio.gather(
        world.join(requires_known_member_id=False), world.join(requires_known_member_id=False)
    )
    await asyncio.gather(
        world.sync(first, {first.member_id: b"1", second.member_id: b"2"}), world.sync(second)
    )
    return first, second


@told_by(in_world)
async def test_a_new_member_gets_its_id_and_then_waits_for_others(world: GroupWorld) -> None:
    loop = asyncio.get_running_loop()
    member_id = await known_id(world)
    assert member_id.startswith("client-")
    begin = loop.time()
    joined = await world.join("g", member_id)
    assert loop.time() - begin == pytest.approx(3)
    assert (joined.error, joined.generation, joined.leader) == (None, 1, member_id)
    assert (joined.protocol, joined.protocol_type) == ("range", "consumer")
    assert [member for member, _, _ in joined.members] == [member_id]
    synced = await world.sync(joined, {member_id: b"all"})
    assert (synced.error, synced.assignment) == (None, b"all")
    assert world.groups.admin.describe("g").state == "Stable"


@told_by(in_world)
async def test_the_initial_delay_grows_up_to_the_rebalance_timeout(world: GroupWorld) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    joins = []
    for _ in range(8):
        joins.append(world.join(requires_known_member_id=False, rebalance_timeout_ms=10_000))
        await asyncio.sleep(2)
    results = await asyncio.gather(*joins[:5])
    assert all(result.error is None and result.generation == 1 for result in results)
    assert loop.time() - begin <= 16


@told_by(in_world)
async def test_only_the_leader_learns_of_the_members_and_all_get_their_part(world: GroupWorld) -> None:
    first, second = await asyncio.gather(
        world.join(requires_known_member_id=False), world.join(requires_known_member_id=False)
    )
    assert first.leader == second.leader == first.member_id
    assert {member for member, _, _ in first.members} == {first.member_id, second.member_id}
    assert second.members == ()
    follower = world.sync(second)
    await turns()
    assert not follower.done()
    leader = await world.sync(first, {first.member_id: b"1", second.member_id: b"2"})
    assert (leader.assignment, done(follower).assignment) == (b"1", b"2")
    assert world.groups.context.rebalances == 1


@told_by(in_world)
async def test_a_third_member_makes_the_others_join_again(world: GroupWorld) -> None:
    first, second = await two_members(world)
    third = world.join(requires_known_member_id=False)
    await turns()
    for member in (first, second):
        with pytest.raises(errors.RebalanceInProgress):
            heartbeat(world, member)
    rejoined = await asyncio.gather(world.join("g", first.member_id), world.join("g", second.member_id))
    assert [result.generation for result in (*rejoined, await third)] == [2, 2, 2]
    with pytest.raises(errors.IllegalGeneration):
        heartbeat(world, first)
    heartbeat(world, first, generation=2)


@told_by(in_world, partitions=1)
async def test_a_member_that_does_not_rejoin_in_time_is_removed(world: GroupWorld) -> None:
    first, second = await two_members(world)
    third = world.join(requires_known_member_id=False, rebalance_timeout_ms=5000)
    await turns()
    again = world.join("g", first.member_id, rebalance_timeout_ms=5000)
    assert (await again).generation == (await third).generation == 2
    with pytest.raises(errors.UnknownMemberId):
        heartbeat(world, second, generation=2)


@told_by(in_world)
async def test_a_silent_member_is_dropped_and_its_group_rebalances(world: GroupWorld) -> None:
    first, second = await two_members(world)
    for _ in range(4):
        await asyncio.sleep(3)
        try:
            heartbeat(world, first)
        except errors.RebalanceInProgress:
            break
    else:
        pytest.fail("the silent member was never dropped")
    again = await world.join("g", first.member_id)
    assert [member for member, _, _ in again.members] == [first.member_id]
    with pytest.raises(errors.UnknownMemberId):
        heartbeat(world, second)


@told_by(in_world)
async def test_a_member_that_never_syncs_is_removed(world: GroupWorld) -> None:
    first, second = await asyncio.gather(
        world.join(requires_known_member_id=False, session_timeout_ms=600_000),
        world.join(requires_known_member_id=False, session_timeout_ms=600_000),
    )
    leader = await world.sync(first, {})
    assert leader.error is None
    await asyncio.sleep(61)
    with pytest.raises(errors.RebalanceInProgress):
        heartbeat(world, first)
    with pytest.raises(errors.UnknownMemberId):
        heartbeat(world, second)


@told_by(in_world)
async def test_an_id_handed_out_and_not_used_does_not_hold_up_the_group_for_ever(world: GroupWorld) -> None:
    first, _ = await two_members(world)
    await known_id(world)
    third = world.join(requires_known_member_id=False)
    again = world.join("g", first.member_id)
    begin = asyncio.get_running_loop().time()
    assert (await third).error is None
    assert (await again).error is None
    assert asyncio.get_running_loop().time() - begin <= 10


@told_by(in_world)
async def test_a_rejoining_leader_rebalances_but_not_a_follower(world: GroupWorld) -> None:
    first, second = await two_members(world)
    again = await world.join("g", second.member_id)
    assert again.generation == 1
    assert (await world.sync(again)).assignment == b"2"
    leader = world.join("g", first.member_id)
    await turns()
    assert not leader.done()
    assert (await world.join("g", second.member_id)).generation == (await leader).generation == 2


@told_by(in_world)
async def test_leaving_needs_no_timeout(world: GroupWorld) -> None:
    first, second = await two_members(world)
    departures = await result_of(world.groups.leave("g", [(second.member_id, None), ("stranger", None)]))
    assert departures[0].error is None
    assert isinstance(departures[1].error, errors.UnknownMemberId)
    begin = asyncio.get_running_loop().time()
    again = await world.join("g", first.member_id)
    assert (again.generation, asyncio.get_running_loop().time()) == (2, begin)
    await result_of(world.groups.leave("g", [(first.member_id, None)]))
    await turns()
    assert world.groups.admin.describe("g").state == "Empty"


@told_by(in_world)
async def test_the_group_chooses_what_all_know_and_most_prefer(world: GroupWorld) -> None:
    votes = [
        (("a", b"1"), ("b", b"2"), ("c", b"3")),
        (("c", b"4"), ("b", b"5")),
        (("b", b"6"), ("c", b"7")),
    ]
    results = await asyncio.gather(
        *[
            world.join(requires_known_member_id=False, protocol_type="x", protocols=protocols)
            for protocols in votes
        ]
    )
    assert {result.protocol for result in results} == {"b"}
    assert [metadata for _, _, metadata in results[0].members] == [b"2", b"5", b"6"]
    stranger = await world.join(requires_known_member_id=False, protocol_type="x", protocols=(("a", b""),))
    assert isinstance(stranger.error, errors.InconsistentGroupProtocol)
    other_type = await world.join(requires_known_member_id=False, protocols=(("b", b""),))
    assert isinstance(other_type.error, errors.InconsistentGroupProtocol)


@told_by(in_world)
async def test_a_static_member_returns_without_a_rebalance(world: GroupWorld) -> None:
    first = await world.member(instance_id="i1")
    begin = asyncio.get_running_loop().time()
    again = await world.join(instance_id="i1")
    assert (again.error, again.generation) == (None, first.generation)
    assert asyncio.get_running_loop().time() == begin
    assert again.member_id != first.member_id
    assert (again.leader, again.skip_assignment) == (again.member_id, True)
    assert [member for member, _, _ in again.members] == [again.member_id]
    synced = await world.sync(again, instance_id="i1")
    assert synced.assignment == b"assigned-" + first.member_id.encode()
    with pytest.raises(errors.FencedInstanceId):
        world.groups.heartbeat("g", member_id=first.member_id, instance_id="i1", generation=1)
    older = await world.join(instance_id="i1", supports_skipping_assignment=False)
    assert older.leader == again.member_id
    assert older.members == ()


@told_by(in_world)
async def test_an_old_self_that_waits_is_fenced_at_once(world: GroupWorld) -> None:
    waiting = world.join(instance_id="i1")
    await turns()
    taking_over = world.join(instance_id="i1")
    await turns()
    assert isinstance(done(waiting).error, errors.FencedInstanceId)
    assert (await taking_over).error is None


@told_by(in_world)
async def test_a_static_member_expires_after_a_slow_write(world: GroupWorld) -> None:
    await world.member(instance_id="i1")
    world.log.is_held = True
    again = world.join(instance_id="i1")
    await asyncio.sleep(30)  # three sessions: a member with a waiting request is alive
    assert not again.done()
    world.log.release()
    assert (await again).error is None
    await asyncio.sleep(11)
    assert world.groups.admin.describe("g").state == "Empty"


@told_by(in_world)
async def test_a_static_member_with_another_choice_of_protocol_rebalances(world: GroupWorld) -> None:
    await world.member(instance_id="i1")
    again = await world.join(instance_id="i1", protocols=(("sticky", b""), ("range", b"")))
    assert (again.generation, again.protocol) == (2, "sticky")


@told_by(in_world)
async def test_an_administrator_removes_a_static_member_by_its_instance_id(world: GroupWorld) -> None:
    await world.member(instance_id="i1")
    departures = await result_of(world.groups.leave("g", [("", "i1"), ("", "i2")]))
    assert departures[0].error is None
    assert isinstance(departures[1].error, errors.UnknownMemberId)


@told_by(in_world, group_max_size=2)
async def test_a_full_group_turns_newcomers_away(world: GroupWorld) -> None:
    await two_members(world)
    third = await world.join(requires_known_member_id=False)
    assert isinstance(third.error, errors.GroupMaxSizeReached)
    assert third.member_id == ""


@told_by(in_world)
async def test_what_a_join_must_not_ask_for(world: GroupWorld) -> None:
    for timeout_ms in (5999, 1_800_001):
        assert isinstance(
            (await world.join(session_timeout_ms=timeout_ms)).error, errors.InvalidSessionTimeout
        )
    assert isinstance((await world.join("")).error, errors.InvalidGroupId)
    assert isinstance((await world.join("g", "made-up")).error, errors.UnknownMemberId)
    assert isinstance((await world.join("g", protocols=())).error, errors.InconsistentGroupProtocol)


@told_by(in_world)
async def test_a_sync_must_fit_the_generation(world: GroupWorld) -> None:
    joined = await world.member()
    assert isinstance((await world.sync(joined, generation=7)).error, errors.IllegalGeneration)
    assert isinstance((await world.sync(joined, protocol="other")).error, errors.InconsistentGroupProtocol)
    assert isinstance((await world.sync(joined, member_id="x")).error, errors.UnknownMemberId)


@told_by(in_world)
async def test_an_assignment_that_cannot_be_written_is_not_given_out(world: GroupWorld) -> None:
    joined = await world.join(requires_known_member_id=False)
    world.log.fail_with = errors.NotEnoughReplicas("one of three")
    assert isinstance((await world.sync(joined, {})).error, errors.CoordinatorNotAvailable)
    world.log.fail_with = None
    with pytest.raises(errors.RebalanceInProgress):
        heartbeat(world, joined)
    again = await world.join("g", joined.member_id)
    assert (await world.sync(again, {joined.member_id: b"x"})).assignment == b"x"


@told_by(in_world)
async def test_no_sync_is_answered_before_its_assignment_is_written(world: GroupWorld) -> None:
    joined = await world.join(requires_known_member_id=False)
    world.log.is_held = True
    synced = world.sync(joined, {joined.member_id: b"x"})
    await turns()
    assert not synced.done()
    world.log.release()
    assert (await synced).assignment == b"x"


@told_by(in_world)
async def test_a_restart_finds_the_group_and_its_members_continue(world: GroupWorld) -> None:
    first, second = await two_members(world)
    before = world.groups.admin.describe("g")
    await world.restart()
    assert world.groups.admin.describe("g") == before
    heartbeat(world, first)
    heartbeat(world, second)
    await asyncio.sleep(11)
    await turns()
    assert world.groups.admin.describe("g").state in ("Empty", "PreparingRebalance")


@told_by(in_world)
async def test_moving_away_answers_waiting_members(world: GroupWorld) -> None:
    waiting = world.join(requires_known_member_id=False)
    await turns()
    world.log.led.clear()
    world.groups.runtime.refresh()
    await turns()
    assert type(done(waiting).error).__name__ == "NotCoordinator"
