"""ConsumerGroup resources on an API server in memory, a real broker, and real consumers."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer

from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.groups import BrokerGroups
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS
from tests.operator.support.broker_world import BrokerWorld, in_world
from tests.support.polling import eventually

pytestmark = [pytest.mark.integration, pytest.mark.clients]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


async def topic_with(world: BrokerWorld, records: int, *, partitions: int = 1, age_seconds: float = 0) -> str:
    """A topic with so many records in each partition, made so long ago."""
    name = unique("t")
    timestamp_ms = round((datetime.now(UTC).timestamp() - age_seconds) * 1000)
    async with world.admin() as admin:
        await admin.topics.create(name, partitions=partitions)
    async with Client(world.broker.bootstrap) as client, Producer(client) as producer:
        for partition in range(partitions):
            for number in range(records):
                await producer.send(name, b"%d" % number, partition=partition, timestamp_ms=timestamp_ms)
        await producer.flush()
    return name


async def commit(world: BrokerWorld, group: str, topic: str, *offsets: int) -> None:
    async with world.admin() as admin:
        await admin.groups.alter_offsets(
            group,
            {TopicPartition(topic, number): CommittedOffset(offset) for number, offset in enumerate(offsets)},
        )


async def committed(world: BrokerWorld, group: str) -> list[int]:
    async with world.admin() as admin:
        found = await admin.groups.offsets(group)
        return [found[where].offset for where in sorted(found)]


class Reader:
    """A consumer in a thread, which commits what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self.offsets: list[int] = []
        self._stop = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "log_level": 0,
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 300
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.offsets.append(message.offset() or 0)
        self._consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@asynccontextmanager
async def reading(
    world: BrokerWorld, group: str, topic: str, protocol: str = "classic"
) -> AsyncIterator[Reader]:
    reader = Reader(world.broker.bootstrap, group, topic, protocol)
    try:
        yield reader
    finally:
        await asyncio.to_thread(reader.close)


def real_time(world: BrokerWorld) -> None:
    """Ages of records and fences are reckoned with the time that the broker has."""
    world.clock = lambda: datetime.now(UTC)


def status(world: BrokerWorld, name: str) -> Any:
    return world.status_of(CONSUMER_GROUPS, name)


@in_world()
async def test_lag_is_shown_in_messages_and_seconds(world: BrokerWorld) -> None:
    real_time(world)
    topic = await topic_with(world, 10, partitions=2, age_seconds=600)
    name, other = unique("g"), unique("g")
    await commit(world, name, topic, 4, 10)
    world.make(CONSUMER_GROUPS, name, topics=[topic], lag={"messages": 3, "seconds": 3600})
    world.make(CONSUMER_GROUPS, other, groupId=unique("other"), topics=[topic], lag={"seconds": 60})
    assert await world.group(name) is not None
    found = status(world, name)
    assert (found["state"], found["replicas"], found["lag"]["messages"]) == ("Empty", 0, 6)
    assert 600 <= found["lag"]["seconds"] < 700
    assert [(row["partition"], row["committed"], row["messages"]) for row in found["partitions"]] == [
        (0, 4, 6),
        (1, 10, 0),
    ]
    assert world.condition(CONSUMER_GROUPS, name, "LagWithinObjective") == ("False", "Behind")
    assert world.condition(CONSUMER_GROUPS, other, "LagWithinObjective") == ("False", "Behind")
    assert {one.reason for one in world.kubernetes.events} == {"LagWithinObjectiveLost"}
    await commit(world, name, topic, 9, 10)
    world.groups._reconciled.clear()
    await world.group(name)
    assert world.condition(CONSUMER_GROUPS, name, "LagWithinObjective") == ("True", "Within")
    assert world.kubernetes.events[-1].reason == "LagWithinObjectiveRestored"


@in_world()
async def test_a_group_begins_at_a_time(world: BrokerWorld) -> None:
    real_time(world)
    topic = await topic_with(world, 10, age_seconds=600)
    name, later = unique("g"), unique("g")
    world.make(CONSUMER_GROUPS, name, topics=[topic], initialPosition={"at": "Duration", "duration": "1h"})
    world.make(CONSUMER_GROUPS, later, topics=[topic], initialPosition={"at": "Duration", "duration": "1m"})
    await world.group(name)
    assert await committed(world, name) == [0]
    assert await committed(world, later) == [10], "nothing is that young"


@in_world()
async def test_a_reset_and_its_undo(world: BrokerWorld) -> None:
    topic = await topic_with(world, 10)
    name = unique("g")
    await commit(world, name, topic, 7)
    world.make(CONSUMER_GROUPS, name, topics=[topic], reset={"id": "one", "to": {"at": "Earliest"}})
    await world.group(name)
    assert await committed(world, name) == [0]
    assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Done")
    assert status(world, name)["snapshot"]["offsets"] == {topic: {"0": 7}}
    world.edit(CONSUMER_GROUPS, name, reset={"id": "two", "to": {"at": "Snapshot"}})
    await world.group(name)
    assert await committed(world, name) == [7]
    assert [one.reason for one in world.kubernetes.events] == ["OffsetsReset", "OffsetsReset"]
    # A rollback brings the first id again, and a pipeline deletes the resource and applies it.
    world.edit(CONSUMER_GROUPS, name, reset={"id": "one", "to": {"at": "Earliest"}})
    await world.group(name)
    assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Repeated")
    assert status(world, name)["snapshot"]["offsets"] == {topic: {"0": 0}}
    world.delete(CONSUMER_GROUPS, name)
    world.make(CONSUMER_GROUPS, name, topics=[topic], reset={"id": "one", "to": {"at": "Earliest"}})
    await world.group(name)
    assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Repeated")
    assert await committed(world, name) == [7]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@in_world()
async def test_a_running_group_is_fenced_reset_and_goes_on_by_itself(
    world: BrokerWorld, protocol: str
) -> None:
    real_time(world)
    topic = await topic_with(world, 20)
    name = unique("g")
    async with reading(world, name, topic, protocol) as reader:

        async def is_read() -> bool:
            return len(reader.offsets) == 20 and await committed(world, name) == [20]

        await eventually("all read", is_read)
        reset = {"id": "one", "to": {"at": "Earliest"}}
        world.make(CONSUMER_GROUPS, name, topics=[topic], reset=reset)
        await world.group(name)
        assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("False", "Refused")
        assert status(world, name)["members"][0]["assignment"] == [f"{topic}-0"]
        world.edit(CONSUMER_GROUPS, name, reset={**reset, "id": "two", "whenActive": "Fence"})
        pauses = 0
        while status(world, name)["reset"]["phase"] != "Done":
            again_seconds = await world.group(name)
            assert again_seconds is not None
            pauses += 1
            assert pauses < 100
            await asyncio.sleep(min(again_seconds, 0.2))
        assert not status(world, name)["reset"].get("fenced")
        await eventually("all read again", lambda: len(reader.offsets) >= 40)
        assert reader.offsets[20:40] == list(range(20))


@in_world()
async def test_deleting_keeps_the_group_or_takes_it_along(world: BrokerWorld) -> None:
    topic = await topic_with(world, 3)
    kept, gone = unique("g"), unique("g")
    for name, policy in ((kept, "Retain"), (gone, "Delete")):
        await commit(world, name, topic, 2)
        world.make(CONSUMER_GROUPS, name, deletionPolicy=policy)
        await world.group(name)
        world.delete(CONSUMER_GROUPS, name)
        await world.group(name)
        assert not world.is_there(CONSUMER_GROUPS, name)
    assert await committed(world, kept) == [2]
    assert await committed(world, gone) == []


@pytest.mark.parametrize("story_of", ["reset", "initial position"])
@in_world()
async def test_an_operator_that_is_killed_between_any_two_writes_goes_on(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, story_of: str
) -> None:
    carry_out = BrokerGroups.carry_out

    real_time(world)
    topic = await topic_with(world, 10)

    async def counted(self: BrokerGroups, step: Any) -> None:
        world.kubernetes.count_write()
        await carry_out(self, step)

    monkeypatch.setattr(BrokerGroups, "carry_out", counted)
    for cut in range(30):
        name = unique("g")
        if story_of == "reset":
            await commit(world, name, topic, 7)
            reset = {"id": "one", "to": {"at": "Latest"}, "whenActive": "Fence"}
            world.make(CONSUMER_GROUPS, name, topics=[topic], deletionPolicy="Delete", reset=reset)
        else:
            world.make(CONSUMER_GROUPS, name, topics=[topic], initialPosition={"at": "Latest"})
        with world.kubernetes.killed_after(cut) as life:
            await world.group(name)
        world.restart_operator()
        await world.group(name)
        assert await committed(world, name) == [10]
        assert world.ready(CONSUMER_GROUPS, name) == ("True", "Governed")
        if story_of == "reset":
            assert world.condition(CONSUMER_GROUPS, name, "Reset") == ("True", "Done")
            assert status(world, name)["snapshot"]["offsets"] == {topic: {"0": 7}}
        if not life.was_cut:
            assert cut >= 3
            return
    raise AssertionError("the story has no end")
