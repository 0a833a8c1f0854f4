"""A share group over time: joins, states of its partitions, sessions, restarts, deletion, and Kafka's own words."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.share.description import describe_share_group
from odradek.broker.groups.share.heartbeats import ShareHeartbeatResult
from odradek.broker.share_states.states import NOT_STARTED, ShareKey
from odradek.foundation.errors import CoordinatorNotAvailable, KafkaStorageError
from tests.support.coordinator_world import GroupWorld, in_world, topic_id
from tests.support.share_members import ShareGroupMember, settle_shares
from tests.support.share_states import MemoryShareStates
from tests.support.stories import told_by

AT_ONCE: dict[str, Any] = {"group_share_assignment_interval_ms": 0}
ALL = {("work", number) for number in range(3)}


def states_of(world: GroupWorld) -> MemoryShareStates:
    assert isinstance(world.share_states, MemoryShareStates)
    return world.share_states


def state_of(world: GroupWorld) -> str:
    return describe_share_group(world.groups, "g").state


def live_records(world: GroupWorld) -> list[EncodedRecord]:
    """The records from which a load makes the group."""
    group = world.groups.runtime.shard("g").machine.groups.share("g")
    assert group is not None
    return sorted(group.live_records())


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_partitions_are_assigned_once_their_states_are_there(world: GroupWorld) -> None:
    states = states_of(world)
    states.go.clear()
    member = ShareGroupMember(world, "a")
    joined = await member.must_beat()
    assert (joined.member_epoch, joined.assigned) == (2, {})
    await asyncio.sleep(5)
    assert (await member.must_beat()).assigned is None
    states.go.set()
    await asyncio.sleep(0.01)
    beat = await member.must_beat()
    assert (beat.member_epoch, member.partitions) == (3, ALL)
    assert [(key.partition, offset, epoch) for key, offset, epoch in states.initialized] == [
        (number, NOT_STARTED, 2) for number in range(3)
    ]
    assert (await member.must_beat()).assigned is None
    assert state_of(world) == "Stable"


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_a_member_that_missed_an_answer_gets_its_assignment_again(world: GroupWorld) -> None:
    """In Kafka 4.4 its partitions have no reader until the next epoch."""
    member = ShareGroupMember(world, "a")
    await member.must_beat()
    await asyncio.sleep(0.01)
    missed = await member.raw()
    assert isinstance(missed, ShareHeartbeatResult) and missed.member_epoch == 3
    beat = await member.must_beat()
    assert (beat.member_epoch, member.partitions) == (3, ALL)
    assert (await member.must_beat()).assigned is None


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_states_that_failed_are_asked_for_again(world: GroupWorld) -> None:
    states = states_of(world)
    states.fail_with = CoordinatorNotAvailable("no coordinator")
    member = ShareGroupMember(world, "a")
    await member.must_beat()
    await asyncio.sleep(0.01)
    await member.must_beat()
    assert not states.initialized
    states.fail_with = None
    await asyncio.sleep(5)
    await settle_shares([member])
    assert member.partitions == ALL


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_another_coordinator_asks_for_states_that_this_one_left(world: GroupWorld) -> None:
    states = states_of(world)
    states.go.clear()
    member = ShareGroupMember(world, "a")
    await member.must_beat()
    await world.restart()
    states.go.set()
    await settle_shares([member])
    assert member.partitions == ALL


@told_by(in_world, topics={"work": 2}, **AT_ONCE)
async def test_more_members_than_partitions_share_them(world: GroupWorld) -> None:
    members = [ShareGroupMember(world, name) for name in "abcde"]
    await settle_shares(members)
    counts = {
        place: sum(place in member.partitions for member in members) for place in {("work", 0), ("work", 1)}
    }
    assert sorted(counts.values()) == [2, 3]
    assert all(len(member.partitions) == 1 for member in members)


@told_by(in_world, topics={"work": 6}, **AT_ONCE)
async def test_a_member_that_comes_takes_a_part_and_one_that_goes_leaves_its_own(world: GroupWorld) -> None:
    first, second = ShareGroupMember(world, "a"), ShareGroupMember(world, "b")
    await settle_shares([first])
    assert len(first.partitions) == 6
    await settle_shares([first, second])
    assert (len(first.partitions), len(second.partitions)) == (3, 3)
    assert not first.partitions & second.partitions
    await second.leave()
    await settle_shares([first])
    assert len(first.partitions) == 6


@told_by(in_world, topics={"work": 2, "more": 2}, **AT_ONCE)
async def test_members_may_subscribe_to_different_topics(world: GroupWorld) -> None:
    both, one = ShareGroupMember(world, "a", ("work", "more")), ShareGroupMember(world, "b", ("work",))
    await settle_shares([both, one])
    assert both.partitions | one.partitions == {
        (name, number) for name in ("work", "more") for number in (0, 1)
    }
    assert len(one.partitions) == 1


@told_by(in_world, topics={"work": 3})
async def test_assignments_follow_each_other_after_an_interval(world: GroupWorld) -> None:
    first, second = ShareGroupMember(world, "a"), ShareGroupMember(world, "b")
    await first.must_beat()
    await asyncio.sleep(1)
    await settle_shares([first])
    assert first.partitions == ALL
    await second.must_beat()
    assert not second.partitions
    await asyncio.sleep(1)
    await settle_shares([first, second])
    assert len(first.partitions) + len(second.partitions) == 3


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_a_silent_member_goes_and_its_epoch_is_refused(world: GroupWorld) -> None:
    first, second = ShareGroupMember(world, "a"), ShareGroupMember(world, "b")
    await settle_shares([first, second])
    for _ in range(10):
        await asyncio.sleep(5)
        await first.must_beat()
    await settle_shares([first])
    assert first.partitions == ALL
    assert str(await second.raw()) == "Member b is not a member of group g."


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_epochs_that_do_not_fit_are_refused_in_kafkas_words(world: GroupWorld) -> None:
    member = ShareGroupMember(world, "a")
    await settle_shares([member])
    greater = await member.raw(member_epoch=member.epoch + 1)
    assert str(greater) == (
        "The share group member has a greater member epoch (4) than the one known by the group coordinator (3). The "
        "member must abandon all its partitions and rejoin."
    )
    # It may have missed the answer with the new epoch.
    again = await member.raw(member_epoch=member.epoch - 1)
    assert isinstance(again, ShareHeartbeatResult)
    assert again.member_epoch == member.epoch
    for fields, words in (
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_epoch": 0}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
        ({"rack_id": ""}, "RackId can't be empty."),
    ):
        assert str(await member.raw(**fields)) == words


@told_by(in_world, topics={"work": 3}, group_share_max_size=1, **AT_ONCE)
async def test_a_full_group_takes_no_more_members(world: GroupWorld) -> None:
    await settle_shares([ShareGroupMember(world, "a")])
    refused = await ShareGroupMember(world, "b").heartbeat()
    assert str(refused) == "The share group has reached its maximum capacity of 1 members."


@told_by(in_world, topics={"work": 3}, **AT_ONCE)
async def test_a_restart_finds_what_members_know(world: GroupWorld) -> None:
    members = [ShareGroupMember(world, name) for name in "ab"]
    await settle_shares(members)
    before, epochs = live_records(world), [member.epoch for member in members]
    await world.restart()
    assert live_records(world) == before
    await settle_shares(members)
    assert [member.epoch for member in members] == epochs


@told_by(in_world, topics={"work": 2}, **AT_ONCE)
async def test_new_partitions_and_deleted_topics_change_the_assignment(world: GroupWorld) -> None:
    member = ShareGroupMember(world, "a")
    await settle_shares([member])
    world.set_topics({"work": 4})
    await settle_shares([member])
    assert len(member.partitions) == 4
    world.set_topics({})
    await asyncio.sleep(0.01)
    await settle_shares([member])
    assert not member.partitions
    group = world.groups.runtime.shard("g").machine.groups.share("g")
    assert group is not None
    assert not group.states.initialized


@told_by(in_world, topics={"work": 2}, **AT_ONCE)
async def test_a_group_is_deleted_with_its_states_and_without_members_alone(world: GroupWorld) -> None:
    member = ShareGroupMember(world, "a")
    await settle_shares([member])
    assert type(await _deleted(world)).__name__ == "NonEmptyGroup"
    await member.leave()
    states_of(world).fail_with = CoordinatorNotAvailable("no coordinator")
    assert type(await _deleted(world)).__name__ == "CoordinatorNotAvailable"
    assert state_of(world) == "Empty"
    states_of(world).fail_with = None
    assert await _deleted(world) is None
    assert not states_of(world).states
    await world.restart()
    assert "g" not in world.groups.runtime.shard("g").machine.groups


async def _deleted(world: GroupWorld) -> Any:
    outcome = world.groups.admin.delete("g")
    return await outcome if asyncio.iscoroutine(outcome) else outcome


@told_by(in_world, topics={"work": 2}, **AT_ONCE)
async def test_a_write_that_fails_changes_nothing(world: GroupWorld) -> None:
    member = ShareGroupMember(world, "a")
    await settle_shares([member])
    before = live_records(world)
    world.log.fail_with = KafkaStorageError("no disk")
    assert type(await ShareGroupMember(world, "b").heartbeat()).__name__ == "NotCoordinator"
    world.log.fail_with = None
    assert live_records(world) == before


@told_by(in_world, topics={"work": 2}, **AT_ONCE)
async def test_a_reset_begins_the_states_of_a_newer_epoch(world: GroupWorld) -> None:
    member = ShareGroupMember(world, "a")
    await settle_shares([member])
    await member.leave()
    states = world.groups.runtime.shard("g").machine.shares.states
    assert await states.reset("g", {topic_id("work"): {1: 42}}) == {}
    found = states_of(world).states[ShareKey("g", topic_id("work"), 1)]
    assert (found.start_offset, found.state_epoch) == (42, describe_share_group(world.groups, "g").epoch)
