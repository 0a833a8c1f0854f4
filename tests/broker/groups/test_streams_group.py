"""A Streams group over time: joins, delays, moves of tasks, sessions, missing topics, restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.streams.description import describe_streams_group
from odradek.broker.groups.streams.heartbeats import StreamsHeartbeatResult
from odradek.broker.groups.streams.schema import ClientTag, UserEndpoint
from odradek.broker.groups.streams.tasks import TargetTasks, list_tasks
from odradek.broker.groups.streams.topology import StatusCode, StreamsTopology
from odradek.foundation.errors import KafkaStorageError
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.stories import told_by
from tests.support.streams_members import (
    NO_TASKS,
    TOPICS,
    StreamsMember,
    check_one_owner,
    counting,
    settle,
    subtopology,
)

AT_ONCE: dict[str, Any] = {
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
}
ALL = {(name, number) for name in "01" for number in range(3)}


def state_of(world: GroupWorld) -> str:
    return describe_streams_group(world.groups, "g").state


def live_records(world: GroupWorld) -> list[EncodedRecord]:
    """The records from which a load makes the group."""
    group = world.groups.runtime.shard("g").machine.groups.streams("g")
    assert group is not None
    return list(group.live_records())


@told_by(in_world, topics=TOPICS)
async def test_the_first_assignment_waits_for_more_members(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    joined = await first.must_beat()
    assert (joined.member_epoch, first.statuses) == (1, (StatusCode.ASSIGNMENT_DELAYED,))
    await second.must_beat()
    assert state_of(world) == "Assigning"
    await asyncio.sleep(2.9)
    await first.must_beat()
    assert (first.owned, first.statuses) == (NO_TASKS, (StatusCode.ASSIGNMENT_DELAYED,))
    await asyncio.sleep(0.2)
    await settle([first, second])
    assert check_one_owner([first, second]).keys() == ALL
    assert len(first.active) == len(second.active) == 3
    assert (state_of(world), first.statuses) == ("Stable", ())


@told_by(in_world, topics=TOPICS, group_streams_initial_rebalance_delay_ms=0)
async def test_assignments_follow_each_other_after_an_interval(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await first.must_beat()
    assert first.active == ALL
    await second.must_beat()
    assert second.statuses == (StatusCode.ASSIGNMENT_DELAYED,)
    await asyncio.sleep(1)
    await settle([first, second])
    assert (len(first.active), len(second.active)) == (3, 3)


@told_by(in_world, topics=TOPICS, group_streams_initial_rebalance_delay_ms=0)
async def test_a_coordinator_with_an_earlier_clock_assigns_tasks(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    world.clock.shift(120_000)
    await first.must_beat()
    world.clock.shift(-120_000)
    await world.restart()
    await second.must_beat()
    await settle([first, second])
    assert (len(first.active), len(second.active)) == (3, 3)


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_task_is_given_once_it_has_been_given_up(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await first.must_beat()
    first.is_slow = True
    await second.must_beat()
    assert second.active == set()
    await first.must_beat()
    await second.must_beat()
    assert (second.active, state_of(world)) == (set(), "Reconciling")
    first.is_slow = False
    await settle([first, second])
    assert check_one_owner([first, second]).keys() == ALL
    assert len(second.active) == 3


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_member_that_keeps_a_task_too_long_is_removed(world: GroupWorld) -> None:
    first = StreamsMember(world, "a", rebalance_timeout_ms=20_000)
    second = StreamsMember(world, "b")
    await first.must_beat()
    first.is_slow = True
    await second.must_beat()
    for _ in range(3):
        await first.heartbeat()
        await second.must_beat()
        await asyncio.sleep(7)
    assert first.epoch == 0 or type(await first.heartbeat()).__name__ == "UnknownMemberId"
    await settle([second])
    assert second.active == ALL


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_the_tasks_of_a_member_that_is_silent_go_to_the_others(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await settle([first, second])
    for _ in range(10):
        await asyncio.sleep(5)
        await second.must_beat()
    assert second.active == ALL
    assert [row.member_id for row in describe_streams_group(world.groups, "g").members] == ["b"]


@told_by(in_world, topics=TOPICS, group_streams_num_standby_replicas=1, **AT_ONCE)
async def test_a_copy_takes_over_when_its_member_is_lost(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await settle([first, second])
    counters = {("1", number) for number in range(3)}
    assert first.standby | second.standby == counters
    assert not first.standby & first.active
    kept = second.standby
    await first.leave()
    await settle([second])
    assert second.active == ALL
    assert kept < second.active
    assert second.standby == set()


@told_by(in_world, topics={"other": 1}, **AT_ONCE)
async def test_missing_topics_are_told_until_they_are_there(world: GroupWorld) -> None:
    member = StreamsMember(world, "a")
    await member.must_beat()
    assert (member.statuses, state_of(world)) == ((StatusCode.MISSING_SOURCE_TOPICS,), "NotReady")
    world.set_topics({"lines": 3})
    answer = await member.must_beat()
    assert member.statuses == (StatusCode.MISSING_INTERNAL_TOPICS,)
    assert [(topic.name, topic.partitions) for topic in answer.missing] == [("r", 3), ("c", 3)]
    world.set_topics(TOPICS)
    await settle([member])
    assert member.active == ALL
    assert list(member.statuses) == []
    assert state_of(world) == "Stable"
    world.set_topics({**TOPICS, "c": 4})
    await member.must_beat()
    assert (member.statuses, state_of(world)) == ((StatusCode.INCORRECTLY_PARTITIONED_TOPICS,), "NotReady")


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_the_group_keeps_its_first_topology(world: GroupWorld) -> None:
    first = StreamsMember(world, "a", topology=counting(epoch=2))
    older = StreamsMember(world, "b", topology=counting(epoch=1))
    other = StreamsMember(world, "c", topology=StreamsTopology(2, (subtopology("0", "lines"),)))
    await first.must_beat()
    await older.must_beat()
    assert older.statuses == (StatusCode.STALE_TOPOLOGY,)
    assert type(await other.heartbeat()).__name__ == "InvalidRequest"
    mixed = StreamsTopology(2, counting().subtopologies[::-1])
    await StreamsMember(world, "d", topology=mixed).must_beat()


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_shutdown_is_told_to_all_until_they_have_left(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await settle([first, second])
    stranger = await StreamsMember(world, "x").raw(member_epoch=-1, shutdown_application=True)
    assert type(stranger).__name__ == "UnknownMemberId"
    await second.must_beat()
    assert not second.statuses
    await first.raw(shutdown_application=True)
    await second.must_beat()
    assert second.statuses == (StatusCode.SHUTDOWN_APPLICATION,)
    await first.leave()
    await second.leave()
    await first.must_beat()
    assert first.statuses == ()


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_static_member_comes_back_to_its_tasks(world: GroupWorld) -> None:
    first = StreamsMember(world, "a", instance_id="i")
    second = StreamsMember(world, "b")
    await settle([first, second])
    held, epoch = first.active, second.epoch
    again = StreamsMember(world, "a2", instance_id="i", process_id=first.fields["process_id"])
    assert type(await again.heartbeat()).__name__ == "UnreleasedInstanceId"
    await first.leave(epoch=-2)
    await again.must_beat()
    assert (again.active, again.epoch) == (held, epoch)
    assert type(await first.raw(member_epoch=1)).__name__ == "FencedInstanceId"


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_members_with_endpoints_are_told_of_each_other(world: GroupWorld) -> None:
    first = StreamsMember(world, "a", user_endpoint=UserEndpoint("h", 1))
    second = StreamsMember(world, "b")
    await settle([first, second])
    told = await second.must_beat()
    assert told.endpoints is not None
    ((endpoint, active, standby),) = told.endpoints
    assert endpoint == ("h", 1)
    assert {(row.topic, number) for row in active for number in row.partitions} == {
        ({"0": "lines", "1": "r"}[name], number) for name, number in first.active
    }
    assert standby == []
    known = await second.raw(endpoint_epoch=told.endpoint_epoch)
    assert isinstance(known, StreamsHeartbeatResult)
    assert known.endpoints is None


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_another_number_of_copies_begins_another_epoch(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await settle([first, second])
    world.settings.group_streams_num_standby_replicas = 1
    await settle([first, second])
    assert len(first.standby | second.standby) == 3


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_restart_finds_the_group_as_it_was(world: GroupWorld) -> None:
    tags = (ClientTag("zone", "z"),)
    first = StreamsMember(world, "a", client_tags=tags, user_endpoint=UserEndpoint("h", 1), rack_id="r")
    second = StreamsMember(world, "b", instance_id="i")
    await settle([first, second])
    before = describe_streams_group(world.groups, "g")
    records = live_records(world)
    await world.restart()
    assert describe_streams_group(world.groups, "g") == before
    assert live_records(world) == records
    quiet = await first.must_beat()
    assert (quiet.assigned, quiet.member_epoch) == (None, before.epoch)


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_change_that_is_not_written_did_not_happen(world: GroupWorld) -> None:
    first = StreamsMember(world, "a")
    await first.must_beat()
    before = describe_streams_group(world.groups, "g")
    world.log.fail_with = KafkaStorageError("the disk is gone for a moment")
    assert type(await StreamsMember(world, "b").heartbeat()).__name__ != "StreamsHeartbeatResult"
    world.log.fail_with = None
    assert describe_streams_group(world.groups, "g") == before


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_reported_offsets_are_of_tasks_that_there_are(world: GroupWorld) -> None:
    member = StreamsMember(world, "a")
    await member.must_beat()
    await member.raw(offsets={("1", 0): 7, ("1", 9): 1, ("x", 0): 1}, end_offsets={("1", 0): 8})
    (row,) = describe_streams_group(world.groups, "g").members
    assert (row.offsets, row.end_offsets) == ({("1", 0): 7}, {("1", 0): 8})
    await member.leave()
    await member.must_beat()
    (row,) = describe_streams_group(world.groups, "g").members
    assert row.offsets == {}


@told_by(in_world, topics=TOPICS, group_streams_max_size=1, **AT_ONCE)
async def test_a_group_has_no_more_members_than_it_may(world: GroupWorld) -> None:
    await StreamsMember(world, "a").must_beat()
    assert type(await StreamsMember(world, "b").heartbeat()).__name__ == "GroupMaxSizeReached"


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_group_is_deleted_with_its_records(world: GroupWorld) -> None:
    member = StreamsMember(world, "a")
    await member.must_beat()
    await member.leave()
    assert state_of(world) == "Empty"
    assert world.groups.admin.list_groups(types=["streams"])[0].protocol_type == "streams"
    await asyncio.sleep(0)
    deleted = world.groups.admin.delete("g")
    assert (await deleted if asyncio.isfuture(deleted) else deleted) is None
    await world.restart()
    assert world.groups.admin.list_groups() == []


@told_by(in_world, topics=TOPICS, group_coordinator_rebalance_protocols=("classic",))
async def test_a_broker_may_leave_the_protocol_out(world: GroupWorld) -> None:
    answer = await StreamsMember(world, "a").heartbeat()
    assert type(answer).__name__ == "UnsupportedVersion"


@pytest.mark.parametrize("word", ["another", "an empty one"])
@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_classic_group_becomes_one_when_it_is_empty(world: GroupWorld, word: str) -> None:
    joined = await world.member("g")
    member = StreamsMember(world, "a")
    if word == "another":
        assert type(await member.heartbeat()).__name__ == "GroupIdNotFound"
        return
    world.groups.leave("g", [(joined.member_id, None)])
    await asyncio.sleep(1)
    await member.must_beat()
    assert member.active == ALL
    refused = await world.join("g", requires_known_member_id=False)
    assert type(refused.error).__name__ == "InconsistentGroupProtocol"
    await member.leave()
    assert (await world.join("g", requires_known_member_id=False)).error is None


def test_owned_tasks_of_a_late_answer_are_taken() -> None:
    """What `TargetTasks` says is empty has no task of any role."""
    assert TargetTasks().is_empty
    assert not TargetTasks(warmup={"0": frozenset({1})}).is_empty
    assert set(list_tasks({"0": frozenset({1, 2})})) == {("0", 1), ("0", 2)}


@told_by(in_world, topics=TOPICS, **AT_ONCE)
async def test_a_member_that_misses_an_answer_is_told_its_tasks_again(world: GroupWorld) -> None:
    first, second = StreamsMember(world, "a"), StreamsMember(world, "b")
    await first.must_beat()
    await second.must_beat()
    await first.must_beat()
    await first.must_beat()
    missed = await second.raw()
    assert isinstance(missed, StreamsHeartbeatResult) and missed.assigned is not None
    told = await second.raw(owned=NO_TASKS)
    assert isinstance(told, StreamsHeartbeatResult) and told.assigned == missed.assigned
    runs = await second.raw(owned=missed.assigned.without_epochs())
    assert isinstance(runs, StreamsHeartbeatResult) and runs.assigned is None
