"""Consumer groups (KIP-848), as stories of their members."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from odradek.broker.coordination.timers import SessionTimers
from odradek.broker.groups.consumer.requests import HeartbeatResult
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from tests.support.consumer_members import ConsumerMember, converge
from tests.support.coordinator_world import GroupWorld, in_world, result_of, topic_id, turns
from tests.support.stories import told_by

T = topic_id("t")


def state(world: GroupWorld) -> str:
    return world.groups.admin.describe_consumer_group("g").state


@told_by(in_world, topics={"t": 4})
async def test_the_first_member_gets_everything_at_once(world: GroupWorld) -> None:
    answer = await ConsumerMember(world, "a").must_beat()
    assert answer == HeartbeatResult(member_id="a", member_epoch=1, assigned={T: frozenset(range(4))})
    assert state(world) == "Stable"
    described = world.groups.admin.describe_consumer_group("g")
    assert (described.epoch, described.target_epoch, described.assignor) == (1, 1, "uniform")
    assert described.members[0].target == described.members[0].assigned == answer.assigned


@told_by(in_world, topics={"t": 4})
async def test_partitions_are_given_up_before_they_are_given_away(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await a.must_beat()
    joined = await b.must_beat()
    assert (joined.member_epoch, joined.assigned) == (2, {})
    revoking = await a.raw()
    assert isinstance(revoking, HeartbeatResult)
    assert (revoking.member_epoch, revoking.assigned) == (1, {T: frozenset({0, 1})})
    assert state(world) == "Reconciling"
    assert (await b.must_beat()).assigned is None
    quiet = await a.raw()
    assert isinstance(quiet, HeartbeatResult)
    assert (quiet.member_epoch, quiet.assigned) == (1, None)
    acknowledged = await a.raw(owned={T: frozenset({0, 1})})
    assert isinstance(acknowledged, HeartbeatResult)
    assert acknowledged.member_epoch == 2
    assert (await b.must_beat()).assigned == {T: frozenset({2, 3})}
    assert state(world) == "Stable"


@told_by(in_world, topics={"t": 4})
async def test_a_quiet_heartbeat_writes_nothing(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a")
    await converge([a])
    before = world.log.appends
    for _ in range(10):
        await a.must_beat()
    assert world.log.appends == before


@told_by(in_world, topics={"t": 4})
async def test_a_member_that_does_not_revoke_in_time_is_fenced(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a", rebalance_timeout_ms=20_000)
    b = ConsumerMember(world, "b")
    await a.must_beat()
    await b.must_beat()
    await a.raw()
    for _ in range(5):
        await asyncio.sleep(5)
        await a.raw()
        await b.must_beat()
    assert isinstance(await a.raw(), UnknownMemberId)
    await b.must_beat()
    assert b.count() == 4


@told_by(in_world, topics={"t": 4})
async def test_a_silent_member_is_fenced_after_its_session(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a, b])
    for _ in range(10):
        await asyncio.sleep(5)
        await a.must_beat()
    assert a.count() == 4
    assert isinstance(await b.raw(), UnknownMemberId)


@told_by(in_world, topics={"t": 4})
async def test_a_session_is_extended_while_clients_are_refused(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire = SessionTimers._fire
    fired = 0

    def counted(self: SessionTimers, group: Any) -> None:
        nonlocal fired
        fired += 1
        if fired < 1_000:  # else time would never move
            fire(self, group)

    monkeypatch.setattr(SessionTimers, "_fire", counted)
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a, b])
    # The registry is silent, and whether another broker coordinates the group by now is not known.
    led, world.log.led = world.log.led, set()
    assert isinstance(await b.raw(), NotCoordinator)
    await asyncio.sleep(50)
    world.log.led = led
    for _ in range(10):
        await a.must_beat()
        await asyncio.sleep(5)
    await a.must_beat()
    assert a.count() == 4
    assert isinstance(await b.raw(), UnknownMemberId)
    assert fired < 20


@told_by(in_world, topics={"t": 4})
async def test_a_group_that_cannot_expire_its_members_leaves_the_loop_to_others(world: GroupWorld) -> None:
    class Failing:
        wake_at = 0.0
        tries = 0

        def expire(self) -> None:
            self.tries += 1
            if self.tries > 100:  # else time would never move
                self.wake_at = math.inf
            raise OSError("it fails")

    timers, group = SessionTimers(), Failing()
    timers.wake(group)
    await asyncio.sleep(9.5)
    assert group.tries == 10
    timers.close()


@told_by(in_world, topics={"t": 4})
async def test_leaving_frees_partitions_at_once(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a, b])
    left = await b.leave()
    assert isinstance(left, HeartbeatResult)
    assert left.member_epoch == -1
    await a.must_beat()
    assert a.count() == 4
    await a.leave()
    assert state(world) == "Empty"
    assert isinstance(await a.leave(), UnknownMemberId)


@told_by(in_world, topics={"t": 4})
async def test_a_static_member_that_returns_gets_its_partitions(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a", instance_id="i1")
    b = ConsumerMember(world, "b", instance_id="i2")
    await converge([a, b])
    epoch, owned = a.epoch, a.owned
    intruder = ConsumerMember(world, "x", instance_id="i1")
    assert isinstance(await intruder.heartbeat(), UnreleasedInstanceId)
    assert isinstance(await intruder.raw(member_epoch=3), FencedInstanceId)
    assert isinstance(await a.leave(epoch=-2), HeartbeatResult)
    await b.must_beat()
    back = ConsumerMember(world, "a2", instance_id="i1")
    answer = await back.must_beat()
    assert (answer.member_epoch, answer.assigned) == (epoch, owned)
    assert (await b.must_beat()).assigned is None
    assert isinstance(await a.raw(member_epoch=epoch), FencedInstanceId)


@told_by(in_world, topics={"t": 4})
async def test_a_static_member_that_stays_away_is_replaced(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a", instance_id="i1"), ConsumerMember(world, "b")
    await converge([a, b])
    await a.leave(epoch=-2)
    for _ in range(10):
        await asyncio.sleep(5)
        await b.must_beat()
    assert b.count() == 4


@told_by(in_world, topics={"t": 4})
async def test_a_lost_answer_does_not_fence(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await a.must_beat()
    await b.must_beat()
    await a.must_beat()
    lost = await a.raw(owned=a.owned)
    assert isinstance(lost, HeartbeatResult)
    assert lost.member_epoch == 2
    assert isinstance(await a.raw(owned=a.owned), HeartbeatResult)
    assert isinstance(await a.raw(owned={T: frozenset(range(4))}), FencedMemberEpoch)
    assert isinstance(await a.raw(member_epoch=9), FencedMemberEpoch)


@told_by(in_world, topics={"t": 4})
async def test_a_fenced_member_may_join_again_under_its_id(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a, b])
    a.epoch = 0
    answer = await a.must_beat()
    assert answer.assigned is not None
    await converge([a, b])
    assert a.count() == b.count() == 2


@told_by(in_world, topics={"t": 2})
async def test_new_partitions_and_topics_are_noticed(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a", topic_names=("t", "later"))
    await a.must_beat()
    assert a.count() == 2
    world.set_topics({"t": 3})
    await a.must_beat()
    assert a.count() == 3
    world.set_topics({"t": 3, "later": 2, "other": 5})
    await a.must_beat()
    assert a.count() == 5
    epoch = a.epoch
    world.set_topics({"t": 3, "later": 2, "other": 6})
    await a.must_beat()
    assert a.epoch == epoch
    world.set_topics({"later": 2})
    await converge([a])
    assert a.count() == 2


@told_by(in_world, topics={"t1": 1, "t2": 1, "x": 1})
async def test_patterns_follow_the_topics(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a", topic_names=(), topic_regex="t.*")
    await a.must_beat()
    assert a.owned.keys() == {topic_id("t1"), topic_id("t2")}
    world.set_topics({"t1": 1, "t2": 1, "x": 1, "t3": 1})
    await a.must_beat()
    assert a.owned.keys() == {topic_id("t1"), topic_id("t2"), topic_id("t3")}
    await world.restart()
    await a.must_beat()
    assert isinstance(await a.raw(topic_regex="(", owned=a.owned), InvalidRegularExpression)
    changed = await a.raw(topic_regex="x", owned=a.owned)
    assert isinstance(changed, HeartbeatResult)
    assert changed.assigned == {}


@told_by(in_world, topics={"t": 4})
async def test_members_vote_for_the_assignor(world: GroupWorld) -> None:
    members = [ConsumerMember(world, name, server_assignor="range") for name in "abc"]
    await converge(members)
    assert members[0].owned == {T: frozenset({0, 1})}
    assert world.groups.admin.describe_consumer_group("g").assignor == "range"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "", "requires_member_id": True}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
        ({"owned": None}, InvalidRequest),
        ({"owned": {T: frozenset({1})}}, InvalidRequest),
        ({"topic_names": None}, InvalidRequest),
        ({"member_epoch": -3}, InvalidRequest),
        ({"member_epoch": -2}, InvalidRequest),
        ({"server_assignor": "mine"}, UnsupportedAssignor),
        ({"topic_regex": "[", "topic_names": None}, InvalidRegularExpression),
        ({"topic_regex": "a" * 5000}, InvalidRegularExpression),
        ({"member_epoch": 5}, GroupIdNotFound),
        ({"member_epoch": -1}, GroupIdNotFound),
    ],
)
@told_by(in_world, topics={"t": 4})
async def test_what_a_heartbeat_must_not_say(
    world: GroupWorld, fields: dict[str, Any], error: type[Exception]
) -> None:
    member = ConsumerMember(world, "a")
    whole = {"rebalance_timeout_ms": 1000, "topic_names": ("t",), "owned": {}, **fields}
    assert type(await member.raw(**whole)) is error


@told_by(in_world, topics={"t": 4}, group_consumer_max_size=1)
async def test_a_full_group_turns_newcomers_away(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a")
    await a.must_beat()
    assert isinstance(await ConsumerMember(world, "b").heartbeat(), GroupMaxSizeReached)
    await a.must_beat()


@told_by(in_world, topics={"t": 4})
async def test_commits_and_fetches_must_be_of_the_epoch(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a")
    await a.must_beat()

    async def commit(member_id: str, epoch: int, version: int = 9) -> object:
        return await result_of(
            world.groups.offsets.commit(
                "g",
                member_id=member_id,
                instance_id=None,
                generation=epoch,
                version=version,
                commits=[("t", 0, OffsetAndMetadata(7))],
            )
        )

    assert await commit("a", 1) == [None]
    with pytest.raises(StaleMemberEpoch):
        await commit("a", 2)
    with pytest.raises(UnknownMemberId):
        await commit("b", 1)
    with pytest.raises(UnknownMemberId):
        await commit("", -1)
    with pytest.raises(Exception, match="OffsetCommit 9"):
        await commit("a", 1, version=8)
    for member_id, epoch, error in (("a", 3, StaleMemberEpoch), ("b", 1, UnknownMemberId)):
        with pytest.raises(error):
            world.groups.offsets.fetch("g", member_id=member_id, member_epoch=epoch, partitions=None)
    found = world.groups.offsets.fetch("g", member_id=None, member_epoch=-1, partitions=None)
    assert {key: value.offset for key, value in found.items()} == {("t", 0): 7}


@told_by(in_world, topics={"t": 4})
async def test_a_restart_finds_epochs_assignments_and_sessions(world: GroupWorld) -> None:
    members = [ConsumerMember(world, name) for name in "abc"]
    await converge(members[:2])
    await members[2].must_beat()
    await members[0].must_beat()
    before = world.groups.admin.describe_consumer_group("g")
    await world.restart()
    assert world.groups.admin.describe_consumer_group("g") == before
    await converge(members)
    assert sorted(member.count() for member in members) == [1, 1, 2]
    await world.restart()
    await asyncio.sleep(46)
    await turns()
    assert state(world) == "Empty"


@told_by(in_world, topics={"t": 4})
async def test_what_cannot_be_written_has_not_happened(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a])
    before = world.groups.admin.describe_consumer_group("g")
    world.log.fail_with = NotEnoughReplicas("none")
    assert isinstance(await b.heartbeat(), CoordinatorNotAvailable)
    assert isinstance(await a.leave(), CoordinatorNotAvailable)
    assert world.groups.admin.describe_consumer_group("g") == before
    await a.must_beat()
    world.log.fail_with = None
    await converge([a, b])
    assert a.count() == b.count() == 2


@told_by(in_world, topics={"t": 4})
async def test_heartbeats_wait_for_the_change_before_them(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a])
    world.log.is_held = True
    joining = asyncio.ensure_future(b.heartbeat())
    await turns()
    waiting = asyncio.ensure_future(a.raw())
    await turns()
    assert not joining.done()
    assert not waiting.done()
    world.log.release()
    await joining
    revoking = await waiting
    assert isinstance(revoking, HeartbeatResult)
    assert revoking.assigned == {T: frozenset({0, 1})}


@told_by(in_world, topics={"t": 4})
async def test_waiting_members_are_answered_when_the_group_moves(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    await converge([a])
    world.log.is_held = True
    first = asyncio.ensure_future(b.heartbeat())
    await turns()
    beating = asyncio.ensure_future(a.raw())
    joining = world.join("g", "x", requires_known_member_id=False)
    leaving = asyncio.ensure_future(result_of(world.groups.leave("g", [("x", None)])))
    deleting = asyncio.ensure_future(result_of(world.groups.admin.delete("g")))
    await turns()
    assert not any(task.done() for task in (beating, joining, leaving, deleting))
    world.log.led.clear()
    world.groups.runtime.refresh()
    world.log.release(NotLeaderOrFollower("moved"))
    errors = [await first, await beating, (await joining).error, (await leaving)[0].error, await deleting]
    assert [type(error) for error in errors] == [NotCoordinator] * 5
