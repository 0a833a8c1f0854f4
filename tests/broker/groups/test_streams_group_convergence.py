"""For all actions of members, no task has two owners, and in the end each is active and the load is even."""

from __future__ import annotations

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.broker.groups.streams.description import describe_streams_group
from odradek.broker.groups.streams.tasks import list_tasks
from odradek.foundation.errors import KafkaStorageError
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.examples import examples
from tests.support.stories import told_by
from tests.support.streams_members import TOPICS, StreamsMember, check_one_owner, settle

NAMES = "abcdef"
# Threads of processes: two of the first, and one of each other.
PROCESSES = dict(zip(NAMES, "PPQRST", strict=True))

steps = st.one_of(
    st.tuples(st.just("heartbeat"), st.sampled_from(NAMES)),
    st.tuples(st.just("heartbeat"), st.sampled_from(NAMES)),
    st.tuples(st.just("join"), st.sampled_from(NAMES)),
    st.tuples(st.just("slow"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(st.just("lapse"), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.just("")),
    st.tuples(st.just("restart"), st.just("")),
    st.tuples(st.just("fail"), st.sampled_from(NAMES)),
    st.tuples(st.just("copies"), st.sampled_from("012")),
)


async def take_step(world: GroupWorld, members: dict[str, StreamsMember], action: str, name: str) -> None:
    member = members.get(name)
    if action == "join" and member is None:
        members[name] = StreamsMember(world, name, process_id=PROCESSES[name])
        await members[name].heartbeat()
    elif action == "wait":
        await asyncio.sleep(1.5)
    elif action == "restart":
        await world.restart()
    elif action == "copies":
        world.settings.group_streams_num_standby_replicas = int(name)
    elif member is None:
        return
    elif action == "heartbeat":
        await member.heartbeat()
    elif action == "slow":
        member.is_slow = not member.is_slow
    elif action == "leave":
        await member.leave()
        del members[name]
    elif action == "fail":
        world.log.fail_with = KafkaStorageError("the disk is gone for a moment")
        await member.heartbeat()
        world.log.fail_with = None
    elif action == "lapse":
        del members[name]  # it says nothing any more, and its session ends
        for _ in range(10):
            await asyncio.sleep(5)
            for other in list(members.values()):
                await other.heartbeat()


@settings(max_examples=examples(50), deadline=None)
@example([("join", "a"), ("wait", ""), ("slow", "a"), ("join", "c"), ("heartbeat", "a"), ("heartbeat", "c")])
@given(st.lists(steps, max_size=40))
@told_by(in_world, topics=TOPICS, group_streams_assignment_interval_ms=0)
async def test_the_group_converges(world: GroupWorld, story_steps: list[tuple[str, str]]) -> None:
    members: dict[str, StreamsMember] = {}
    for step in story_steps:
        await take_step(world, members, *step)
        check_active_once(list(members.values()))
    alive = list(members.values())
    for member in alive:
        member.is_slow = False
    if not alive:
        return
    for _ in range(4):
        # Delays and sessions of those that are gone end.
        await asyncio.sleep(4)
        for member in alive:
            await member.heartbeat()
    await settle(alive)
    owners = check_one_owner(alive)
    assert owners.keys() == {(name, number) for name in "01" for number in range(3)}
    described = describe_streams_group(world.groups, "g")
    assert described.state == "Stable"
    for row in described.members:
        assert row.assigned == row.target == members[row.member_id].owned
        assert {name for name, _ in list_tasks(row.target.standby)} <= {"1"}


def check_active_once(members: list[StreamsMember]) -> None:
    """A member that is slow may still run what it gives up: no other runs it."""
    owners: dict[tuple[str, int], str] = {}
    for member in members:
        for task in member.active:
            assert task not in owners, f"{task} runs at {owners[task]} and at {member.member_id}"
            owners[task] = member.member_id
