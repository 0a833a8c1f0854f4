"""Topic resources in memory, and a real broker: what is made, changed, adopted, deleted, and reported."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from odradek.client.results import ConfigSource, ResourceType
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek_operator.gateways.kubernetes import CLUSTERS, CONFIG_MAPS, TOPICS
from odradek_operator.gateways.topics import BrokerTopics
from odradek_operator.reconcilers.cluster.run import mark_contents_stale
from odradek_operator.reconcilers.declared import record_name
from tests.operator.support.broker_world import BrokerWorld, in_world
from tests.support.broker_process import free_port

pytestmark = pytest.mark.integration


def unique() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


async def settings_of(world: BrokerWorld, topic: str) -> dict[str, str | None]:
    async with world.admin() as admin:
        entries = await admin.configs.describe(ResourceType.TOPIC, topic)
        return {entry.name: entry.value for entry in entries if entry.source is ConfigSource.TOPIC}


async def partitions_of(world: BrokerWorld, topic: str) -> int:
    async with world.admin() as admin:
        return len((await admin.topics.describe(topic)).partitions)


@in_world()
async def test_a_topic_is_made_grown_and_changed(world: BrokerWorld) -> None:
    name = unique()
    world.make(
        TOPICS, name, partitions=2, replicas=1, config={"retention.ms": 60000, "cleanup.policy": "compact"}
    )
    assert await world.topic(name) is None
    assert await partitions_of(world, name) == 2
    assert await settings_of(world, name) == {"retention.ms": "60000", "cleanup.policy": "compact"}
    assert world.ready(TOPICS, name) == ("True", "AsWanted")
    status = world.body(TOPICS, name)["status"]
    assert (status["partitions"], status["replicas"], status["records"]) == (2, 1, 0)
    assert (status["wellPartitions"], status["partitionStates"]) == ("0-1", [])
    world.edit(TOPICS, name, partitions=5, config={"retention.ms": 7, "cleanup.policy": None})
    await world.topic(name)
    assert await partitions_of(world, name) == 5
    assert await settings_of(world, name) == {"retention.ms": "7"}
    assert world.body(TOPICS, name)["status"]["appliedGeneration"] == 2
    events = [one.reason for one in world.kubernetes.events]
    assert events == [], "nothing of this needs anybody"


@in_world()
async def test_what_is_as_wanted_is_not_written_again(world: BrokerWorld) -> None:
    name = unique()
    world.make(TOPICS, name)
    await world.topic(name)
    written = list(world.kubernetes.written)
    await world.topic(name)
    world.restart_operator()
    await world.topic(name)
    assert world.kubernetes.written == written


@in_world()
async def test_refused_settings_are_shown_and_others_go_on(world: BrokerWorld) -> None:
    bad, good = unique(), unique()
    world.make(TOPICS, bad, replicas=3)
    world.make(TOPICS, good)
    assert (await world.topic(bad) or 0) > 30
    assert world.ready(TOPICS, bad) == ("False", "InvalidReplicationFactor")
    assert world.ready(TOPICS, good) == ("True", "AsWanted")
    assert [(one.name, one.reason) for one in world.kubernetes.events] == [(bad, "InvalidReplicationFactor")]
    world.make(TOPICS, "wrong", config={"retention.m": 5})
    await world.topic("wrong")
    assert world.ready(TOPICS, "wrong") == ("False", "InvalidSpec")
    (ready,) = world.body(TOPICS, "wrong")["status"]["conditions"]
    assert "did you mean retention.ms?" in ready["message"]


@in_world()
async def test_a_topic_whose_resource_is_only_missing_stays(world: BrokerWorld) -> None:
    name = unique()
    world.make(TOPICS, name, deletionPolicy="Delete")
    await world.topic(name)
    body = world.body(TOPICS, name)
    world.delete_cluster()
    world.make_cluster_again()
    world.delete(TOPICS, name)  # with the operator away, as when a namespace is wiped and restored
    world.restart_operator()
    other = unique()
    world.make(TOPICS, other)
    await world.topic(other)
    assert await partitions_of(world, name) == 1
    world.make(TOPICS, name, deletionPolicy="Delete", adoptionPolicy="AdoptIfEqual")
    await world.topic(name)
    assert world.body(TOPICS, name)["status"]["topicId"] == body["status"]["topicId"]


@pytest.mark.parametrize("is_whole_record_lost", [True, False])
@in_world()
async def test_a_deleted_topic_goes_although_the_record_of_it_was_lost(
    world: BrokerWorld, is_whole_record_lost: bool
) -> None:
    """A person has deleted the ConfigMap, or taken the entry out of it."""
    name, record = unique(), record_name("main", TOPICS)
    world.make(TOPICS, name, deletionPolicy="Delete")
    await world.topic(name)
    if is_whole_record_lost:
        world.delete(CONFIG_MAPS, record)
    else:
        world.merge(CONFIG_MAPS, record, {"data": {world.body(TOPICS, name)["metadata"]["uid"]: None}})
    world.delete(TOPICS, name)
    await world.topic(name)
    with pytest.raises(UnknownTopicOrPartition):
        await partitions_of(world, name)
    assert name not in world.entries(TOPICS)


@in_world()
async def test_a_topic_deleted_with_its_cluster_goes_when_that_is_applied_again(world: BrokerWorld) -> None:
    gone, back, kept = unique(), unique(), unique()
    world.make(TOPICS, gone, deletionPolicy="Delete")
    world.make(TOPICS, back, deletionPolicy="Delete")
    world.make(TOPICS, kept)
    await world.topic(gone)
    assert world.entries(TOPICS) >= {gone, back} and kept not in world.entries(TOPICS)
    world.delete_cluster()
    # As its reconciler does when it is gone.
    await mark_contents_stale(world.environment, world.key(CLUSTERS, "main"))
    await world.topic(kept)
    for name in (gone, back, kept):
        assert world.ready(TOPICS, name) == ("False", "ClusterNotFound")
        world.delete(TOPICS, name)
        assert not world.is_there(TOPICS, name), "nothing of ours holds it"
        await world.topic(name)
    world.restart_operator()
    world.make_cluster_again()
    world.make(TOPICS, back, deletionPolicy="Delete")
    await world.topic(back)
    assert world.ready(TOPICS, back) == ("True", "AsWanted")
    assert await partitions_of(world, back) == await partitions_of(world, kept) == 1
    with pytest.raises(UnknownTopicOrPartition):
        await partitions_of(world, gone)
    assert world.entries(TOPICS).isdisjoint({gone, kept})
    assert [one.kind for one in world.kubernetes.events if one.reason == "TopicDeleted"] == ["Cluster"]


@in_world()
async def test_a_topic_that_is_deleted_and_applied_at_once_is_made_again(world: BrokerWorld) -> None:
    name = unique()
    world.make(TOPICS, name, partitions=3, deletionPolicy="Delete")
    await world.topic(name)
    before = world.status_of(TOPICS, name)["topicId"]
    world.delete(TOPICS, name)
    world.make(TOPICS, name, partitions=2, deletionPolicy="Delete")
    await world.topic(name)
    assert world.status_of(TOPICS, name)["topicId"] != before
    assert await partitions_of(world, name) == 2


@in_world()
async def test_a_topic_made_by_others_under_the_name_stays(world: BrokerWorld) -> None:
    """The resource's own topic is gone. Another one has its name, and another id."""
    name = unique()
    world.make(TOPICS, name, partitions=3, deletionPolicy="Delete")
    await world.topic(name)
    async with world.admin() as admin:
        await admin.topics.delete(name)
        await admin.topics.create(name, partitions=1)
        made = (await admin.topics.describe(name)).id
    world.delete(TOPICS, name)
    await world.topic(name)
    async with world.admin() as admin:
        assert (await admin.topics.describe(name)).id == made
    assert name not in world.entries(TOPICS)


@in_world()
async def test_a_topic_that_another_resource_names_stays(world: BrokerWorld) -> None:
    name, other = unique(), unique()
    world.make(TOPICS, name, created="2025-01-01T00:00:00Z", deletionPolicy="Delete")
    world.make(TOPICS, other, name=name, deletionPolicy="Delete")
    await world.topic(name)
    assert world.ready(TOPICS, other) == ("False", "TopicTaken")
    world.delete(TOPICS, name)
    await world.topic(name)
    await world.topic(other)
    assert world.ready(TOPICS, other) == ("True", "AsWanted")
    assert [one.reason for one in world.kubernetes.events][-1] == "TopicKept"
    assert world.entries(TOPICS) >= {other}


@in_world()
async def test_without_the_cluster_nothing_hangs(world: BrokerWorld) -> None:
    name, other = unique(), unique()
    world.make(TOPICS, name, deletionPolicy="Delete")
    world.make(TOPICS, other, cluster="never-made", deletionPolicy="Delete")
    await world.topic(name)
    await world.topic(other)
    assert world.ready(TOPICS, other) == ("False", "ClusterNotFound")
    world.bootstrap = f"127.0.0.1:{free_port()}"
    world.edit(TOPICS, name, partitions=2)
    assert await world.topic(name) is not None
    assert world.ready(TOPICS, name) == ("Unknown", "ClusterUnreachable")
    world.delete(TOPICS, name)
    assert not world.is_there(TOPICS, name)
    await world.topic(name)
    assert world.key(TOPICS, name) in world.woken, "it is tried again while there is a Cluster"
    world.delete(CLUSTERS, "main")
    world.restart_operator()
    await world.topic(name)
    assert await partitions_of(world, name) == 1


@in_world()
async def test_many_topics_are_one_pass(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    look = BrokerTopics.describe

    async def counted(self: BrokerTopics, names: Any) -> Any:
        found = await look(self, names)
        looks.append(len(found.topics))
        return found

    monkeypatch.setattr(BrokerTopics, "describe", counted)

    names = [unique() for _ in range(250)]
    for name in names:
        world.make(TOPICS, name)
    for name in names:
        await world.topic(name)
    assert {world.ready(TOPICS, name) for name in names} == {("True", "AsWanted")}
    assert looks == [250, 250], "looked at before and after they were made, and not again"
    async with world.admin() as admin:
        await admin.topics.delete_many(names)


@in_world()
async def test_conditions_are_metrics_until_the_resource_is_gone(world: BrokerWorld) -> None:
    name = unique()
    world.make(TOPICS, name)
    await world.topic(name)
    assert len(list(world.environment.conditions.samples())) == 2
    world.delete(TOPICS, name)
    await world.topic(name)
    assert not list(world.environment.conditions.samples())


async def cut_off_everywhere(
    world: BrokerWorld, begin: Any, until: Any, *, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Kill the operator after 0, 1, 2, … writes of the story that `begin` makes; each time a new one must finish it."""
    carry_out = BrokerTopics.carry_out

    async def counted(self: BrokerTopics, steps: Any) -> Any:
        refused: dict[str, Any] = {}
        for step in steps:
            world.kubernetes.count_write()
            refused |= await carry_out(self, [step])
        return refused

    monkeypatch.setattr(BrokerTopics, "carry_out", counted)
    for cut in range(100):
        name = begin(world)
        world.restart_operator()
        with world.kubernetes.killed_after(cut) as life:
            await world.topic(name)
        world.restart_operator()
        await world.topic(name)
        await until(world, name)
        if not life.was_cut:
            return cut
    raise AssertionError("the story has no end")


@pytest.mark.parametrize("policy", ["Adopt", "AdoptIfEqual", "Fail"])
@in_world()
async def test_an_operator_that_is_killed_between_any_two_writes_goes_on(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    def make(world: BrokerWorld) -> str:
        name = unique()
        world.make(TOPICS, name, partitions=2, deletionPolicy="Delete", adoptionPolicy=policy)
        return name

    async def is_made(world: BrokerWorld, name: str) -> None:
        assert world.ready(TOPICS, name) == ("True", "AsWanted")
        assert world.status_of(TOPICS, name)["ownerUid"] == world.body(TOPICS, name)["metadata"]["uid"]

    assert await cut_off_everywhere(world, make, is_made, monkeypatch=monkeypatch) >= 3


@in_world()
async def test_a_deletion_that_is_cut_off_anywhere_is_finished(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [unique() for _ in range(4)]
    for name in names:
        world.make(TOPICS, name, deletionPolicy="Delete")
    await world.topic(names[0])

    def delete(world: BrokerWorld) -> str:
        name = names.pop()
        world.delete(TOPICS, name)
        return name

    async def is_gone(world: BrokerWorld, name: str) -> None:
        assert not world.is_there(TOPICS, name)
        with pytest.raises(UnknownTopicOrPartition):
            await partitions_of(world, name)

    assert await cut_off_everywhere(world, delete, is_gone, monkeypatch=monkeypatch) >= 2
