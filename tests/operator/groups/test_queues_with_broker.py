"""ConsumerGroup resources of the type Share on an API server in memory, a real broker, and real share consumers."""

from __future__ import annotations

import uuid
from typing import Any, Literal

import pytest

from odradek.client.client import Client
from odradek.client.results import ConfigSource, ResourceType
from odradek.client.share.share_consumer import ShareConsumer
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.kubernetes import CLUSTERS, CONSUMER_GROUPS, DEPLOYMENTS, TOPICS
from tests.operator.groups.test_groups_with_broker import real_time, status, topic_with
from tests.operator.support.broker_world import BrokerWorld, in_world

pytestmark = pytest.mark.integration

Answer = Literal["accept", "release", "reject"]
FROM_THE_FIRST = {"share.auto.offset.reset": "earliest"}
SECONDS_MAX = 60.0


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


async def work(world: BrokerWorld, group: str, topic: str, *answers: Answer) -> list[bytes | None]:
    """A worker that gives the next records these answers, sends them, and goes."""
    values: list[bytes | None] = []
    async with (
        Client(world.broker.bootstrap) as client,
        ShareConsumer(client, group, [topic], is_explicit=True) as queue,
    ):
        left = list(answers)
        while left:
            for record in await queue.poll():
                answer: Answer = left.pop(0) if left else "release"
                queue.acknowledge(record, answer)
                values += [record.value] if answer == "accept" else []
            refusals = await queue.commit()
            assert not any(refusals.values()), refusals
    return values


def accepts(count: int) -> list[Answer]:
    return ["accept"] * count


async def own_settings(world: BrokerWorld, group: str) -> dict[str, str | None]:
    async with world.admin() as admin:
        entries = await admin.configs.describe(ResourceType.GROUP, group)
        return {entry.name: entry.value for entry in entries if entry.source is ConfigSource.GROUP}


async def look(world: BrokerWorld, name: str) -> Any:
    world.groups._reconciled.clear()
    await world.group(name)
    return status(world, name)


@in_world()
async def test_a_declared_queue_has_its_settings_and_shows_what_is_left(world: BrokerWorld) -> None:
    real_time(world)
    topic, name = await topic_with(world, 10, age_seconds=600), unique("q")
    config = {**FROM_THE_FIRST, "share.delivery.count.limit": 3}
    world.make(CONSUMER_GROUPS, name, type="Share", topics=[topic], config=config, lag={"seconds": 60})
    await world.group(name)
    assert await own_settings(world, name) == {key: str(value) for key, value in config.items()}
    assert status(world, name)["lag"]["messages"] == 10, "it begins with the first record"
    assert await work(world, name, topic, *accepts(4)) == [b"0", b"1", b"2", b"3"]
    found = await look(world, name)
    assert (found["type"], found["state"], found["lag"]["messages"]) == ("share", "Empty", 6)
    assert found["lag"]["seconds"] >= 600
    assert world.condition(CONSUMER_GROUPS, name, "LagWithinObjective") == ("False", "Behind")
    await work(world, name, topic, *accepts(6))
    assert (await look(world, name))["lag"]["messages"] == 0
    assert world.condition(CONSUMER_GROUPS, name, "LagWithinObjective") == ("True", "Within")
    world.edit(CONSUMER_GROUPS, name, config={"share.delivery.count.limit": None})
    await look(world, name)
    assert await own_settings(world, name) == FROM_THE_FIRST


@in_world()
async def test_a_setting_beyond_the_brokers_bounds_is_shown(world: BrokerWorld) -> None:
    name = unique("q")
    world.make(CONSUMER_GROUPS, name, type="Share", config={"share.record.lock.duration.ms": 2_000_000_000})
    await world.group(name)
    assert world.ready(CONSUMER_GROUPS, name) == ("False", "InvalidConfig")
    world.edit(CONSUMER_GROUPS, name, config={"share.record.lock.duration.ms": 20_000})
    await world.group(name)
    assert world.ready(CONSUMER_GROUPS, name) == ("True", "Governed")


@in_world()
async def test_a_queue_begins_where_it_is_told_and_is_reset_and_taken_back(world: BrokerWorld) -> None:
    topic, name = await topic_with(world, 10), unique("q")
    world.make(CONSUMER_GROUPS, name, type="Share", topics=[topic], initialPosition={"at": "Earliest"})
    await world.group(name)
    assert status(world, name)["startedFrom"] == "Earliest, set in 1 partition"
    await work(world, name, topic, *accepts(10))
    assert (await look(world, name))["lag"]["messages"] == 0
    world.edit(CONSUMER_GROUPS, name, reset={"id": "one", "to": {"at": "Earliest"}})
    assert (await look(world, name))["lag"]["messages"] == 10
    assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Done")
    world.edit(CONSUMER_GROUPS, name, reset={"id": "two", "to": {"at": "Snapshot"}})
    assert (await look(world, name))["lag"]["messages"] == 0
    async with world.admin() as admin:
        assert (await admin.queues.offsets(name))[TopicPartition(topic, 0)].start == 10
    # Its stored start is still at its last place when what follows is done: that shows no reset.
    world.edit(CONSUMER_GROUPS, name, reset={"id": "three", "to": {"at": "Earliest"}})
    await look(world, name)
    await work(world, name, topic, *accepts(4))
    world.edit(CONSUMER_GROUPS, name, reset={"id": "four", "to": {"at": "Earliest"}})
    assert (await look(world, name))["lag"]["messages"] == 10


@in_world()
async def test_members_of_a_queue_are_put_out_for_a_reset_and_come_back(world: BrokerWorld) -> None:
    real_time(world)
    topic, name = await topic_with(world, 5), unique("q")
    reset = {"id": "one", "to": {"at": "Earliest"}, "whenActive": "Fence"}
    world.make(CONSUMER_GROUPS, name, type="Share", topics=[topic], config=FROM_THE_FIRST)
    await world.group(name)
    seen: list[bytes | None] = []
    async with (
        Client(world.broker.bootstrap) as client,
        ShareConsumer(client, name, [topic]) as queue,
    ):
        while len(seen) < 5:
            seen += [record.value for record in await queue.poll()]
        await queue.commit()
        shown = await look(world, name)
        assert (shown["replicas"], shown["lag"]["messages"]) == (1, 0)
        assert shown["members"][0]["assignment"] == [f"{topic}-0"]
        world.edit(CONSUMER_GROUPS, name, reset=reset)
        for _ in range(100):
            if (await look(world, name))["reset"]["phase"] == "Done":
                break
        assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Done")
        while len(seen) < 10:
            seen += [record.value for record in await queue.poll()]
    assert seen[5:] == seen[:5]


@in_world()
async def test_dead_letters_are_counted_and_their_topic_is_looked_at(world: BrokerWorld) -> None:
    topic, name = await topic_with(world, 3), unique("q")
    letters = f"dlq.{topic}"
    declared = {"topic": letters, "copyRecords": True}
    world.make(
        CONSUMER_GROUPS, name, type="Share", topics=[topic], config=FROM_THE_FIRST, deadLetters=declared
    )
    await world.group(name)
    assert world.condition(CONSUMER_GROUPS, name, "DeadLetterTopicReady") == ("False", "Missing")
    world.make(TOPICS, "letters", name=letters, config={"errors.deadletterqueue.group.enable": False})
    await world.topic("letters")
    await look(world, name)
    assert world.condition(CONSUMER_GROUPS, name, "DeadLetterTopicReady") == ("False", "NotAllowed")
    world.edit(TOPICS, "letters", config={"errors.deadletterqueue.group.enable": True})
    world.topics._reconciled.clear()
    await world.topic("letters")
    assert (await look(world, name))["deadLetters"] == {"topic": letters, "records": 0}
    assert world.condition(CONSUMER_GROUPS, name, "DeadLetterTopicReady") == ("True", "Allowed")
    await work(world, name, topic, "accept", "reject", "reject")
    assert (await look(world, name))["deadLetters"] == {"topic": letters, "records": 2}


@in_world()
async def test_the_workers_of_a_queue_follow_its_backlog(world: BrokerWorld) -> None:
    real_time(world)
    topic, name = await topic_with(world, 25), unique("q")
    world.create(DEPLOYMENTS, "workers", {"replicas": 0})
    world.merge(CLUSTERS, "main", {"spec": {"scalableWorkloads": [{"name": "workers"}]}})
    scaling = {"messagesPerMember": 10, "min": 0, "max": 5, "scaleDownAfter": "0s"}
    world.make(
        CONSUMER_GROUPS,
        name,
        type="Share",
        topics=[topic],
        config=FROM_THE_FIRST,
        workload={"name": "workers"},
        scaling=scaling,
    )
    await world.group(name)
    assert world.body(DEPLOYMENTS, "workers")["spec"]["replicas"] == 3
    await work(world, name, topic, *accepts(25))
    found = await look(world, name)
    assert found["scaling"]["wanted"] == 0
    assert world.body(DEPLOYMENTS, "workers")["spec"]["replicas"] == 0


@in_world()
async def test_a_consumer_group_that_is_declared_as_a_queue_is_left_alone(world: BrokerWorld) -> None:
    topic, name = await topic_with(world, 3), unique("g")
    await work(world, name, topic)
    async with world.admin() as admin:
        await admin.configs.describe(ResourceType.GROUP, name)
    async with (
        Client(world.broker.bootstrap) as client,
        ShareConsumer(client, name, [topic]) as queue,
    ):
        await queue.poll()
        world.make(CONSUMER_GROUPS, name, topics=[topic], initialPosition={"at": "Earliest"})
        await world.group(name)
        assert world.ready(CONSUMER_GROUPS, name) == ("False", "OtherType")


@in_world()
async def test_a_queue_goes_with_its_resource(world: BrokerWorld) -> None:
    topic, name = await topic_with(world, 3), unique("q")
    position = {"at": "Earliest"}
    world.make(
        CONSUMER_GROUPS, name, type="Share", topics=[topic], initialPosition=position, deletionPolicy="Delete"
    )
    await world.group(name)
    world.delete(CONSUMER_GROUPS, name)
    await world.group(name)
    async with world.admin() as admin:
        assert name not in [one.group_id for one in await admin.queues.list()]
