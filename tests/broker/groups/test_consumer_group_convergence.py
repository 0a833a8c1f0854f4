"""For all actions of members, no partition has two owners, and in the end the group is complete and balanced."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import KafkaStorageError
from tests.support.consumer_members import ConsumerMember, check_exclusive, converge
from tests.support.coordinator_world import GroupWorld, in_world, topic_id
from tests.support.examples import examples
from tests.support.stories import told_by

NAMES = "abcdef"
TOPICS = {"t": 5, "u": 3, "v": 1}

steps = st.one_of(
    st.tuples(st.just("heartbeat"), st.sampled_from(NAMES)),
    st.tuples(st.just("heartbeat"), st.sampled_from(NAMES)),
    st.tuples(st.just("join"), st.sampled_from(NAMES)),
    st.tuples(st.just("slow"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("subscribe"), st.sampled_from(NAMES), st.lists(st.sampled_from(sorted(TOPICS)), unique=True)
    ),
    st.tuples(st.just("grow"), st.sampled_from(sorted(TOPICS))),
    st.tuples(st.just("lapse"), st.sampled_from(NAMES)),
    st.tuples(st.just("restart"), st.just("")),
    st.tuples(st.just("fail"), st.sampled_from(NAMES)),
)


class Group:
    """The members of a story; those in `members` are alive."""

    def __init__(self, world: GroupWorld, assignor: str) -> None:
        self.world = world
        self.assignor = assignor
        self.members: dict[str, ConsumerMember] = {}
        self.topics = dict(TOPICS)

    async def step(self, action: str, name: str, topics: list[str] | None = None) -> None:
        member = self.members.get(name)
        if action == "join" and member is None:
            fields: dict[str, Any] = {"server_assignor": self.assignor, "topic_names": ("t", "u")}
            self.members[name] = ConsumerMember(self.world, name, **fields)
            await self.members[name].heartbeat()
        elif action == "grow":
            self.topics[name] += 1
            self.world.set_topics(self.topics)
        elif action == "restart":
            await self.world.restart()
        elif member is None:
            return
        elif action == "heartbeat":
            await member.heartbeat()
        elif action == "slow":
            member.is_slow = not member.is_slow
        elif action == "leave":
            await member.leave()
            del self.members[name]
        elif action == "subscribe":
            await member.subscribe(*(topics or ()))
        elif action == "fail":
            self.world.log.fail_with = KafkaStorageError("the disk is gone for a moment")
            await member.heartbeat()
            self.world.log.fail_with = None
        elif action == "lapse":
            del self.members[name]  # it says nothing any more, and its session ends
            for _ in range(10):
                await asyncio.sleep(5)
                for other in list(self.members.values()):
                    await other.heartbeat()

    def check_rest(self) -> None:
        owners = check_exclusive(list(self.members.values()))
        wanted = {
            (topic_id(topic), partition)
            for member in self.members.values()
            for topic in member.fields["topic_names"]
            for partition in range(self.topics[topic])
        }
        assert owners.keys() == wanted
        subscriptions = {frozenset(member.fields["topic_names"]) for member in self.members.values()}
        if len(subscriptions) == 1 and self.assignor == "uniform":
            counts = [member.count() for member in self.members.values()]
            assert max(counts) - min(counts) <= 1
        described = self.world.groups.admin.describe_consumer_group("g")
        assert described.state == "Stable"
        for row in described.members:
            assert row.assigned == row.target == self.members[row.member_id].owned


@settings(max_examples=examples(60), deadline=None)
@example("uniform", [("join", "a"), ("slow", "a"), ("join", "b"), ("heartbeat", "a"), ("heartbeat", "b")])
@given(st.sampled_from(["uniform", "range"]), st.lists(steps, max_size=40))
@told_by(in_world, topics=TOPICS)
async def test_the_group_converges(
    world: GroupWorld, assignor: str, story_steps: list[tuple[str, str]]
) -> None:
    group = Group(world, assignor)
    for step in story_steps:
        await group.step(*step)
        check_exclusive(list(group.members.values()))
    for member in group.members.values():
        member.is_slow = False
    if group.members:
        await converge(list(group.members.values()), rounds=30)
        group.check_rest()
