"""A write larger than the registry's bound is made in steps; a crash between two steps leaves nothing broken."""

import pytest

from odradek.foundation.errors import PolicyViolation, TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import StoreConnectionLost
from odradek.metadata.controller.partition_reassignment import PartitionReassignment
from odradek.metadata.controller.requests import (
    AlterConfigOp,
    ConfigOperation,
    DeletedTopic,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    Resource,
    TopicMetadataAndConfig,
)
from odradek.metadata.image import paths
from odradek.metadata.image.image import ResourceKind
from tests.metadata.controller.test_leadership import Cluster
from tests.support.memory_registry import DyingStore, MemoryStore, load_image

# Some ten partitions' worth.
SMALL_BYTES = 6_000
COUNT = 40


async def small_writes(*brokers: int) -> Cluster:
    cluster = await Cluster.start(*brokers)
    cluster.registry.write_bytes_max = SMALL_BYTES
    return cluster


async def is_what_the_registry_says(cluster: Cluster) -> bool:
    return (await load_image(MemoryStore(cluster.registry))).topics == cluster.images.current.topics


async def test_topics_are_made_grown_and_deleted_in_steps() -> None:
    cluster = await small_writes(1, 2, 3)
    made = await cluster.controller.create_topics(
        [NewTopic(name, COUNT, 3, config={"retention.ms": "5"}) for name in ("t", "u")]
    )
    assert all(isinstance(outcome, TopicMetadataAndConfig) for outcome in made)
    assert await cluster.controller.create_partitions([NewPartitions("t", 2 * COUNT)]) == [None]
    assert len(cluster.led()) == 2 * COUNT
    assert all(leader > 0 and len(isr) == 3 for leader, isr in cluster.led())
    assert await is_what_the_registry_says(cluster)
    deleted = await cluster.controller.delete_topics(["t", "u"])
    assert all(isinstance(outcome, DeletedTopic) for outcome in deleted)
    left = MemoryStore(cluster.registry)
    for path in (paths.TOPICS, "/config/topics", paths.DELETE_TOPICS):
        assert await left.children(path) == []


async def test_a_large_move_is_begun_in_steps() -> None:
    cluster = await small_writes(1, 2, 3)
    names = ["t", *(f"u{number}" for number in range(5))]
    for name in names:
        await cluster.controller.create_topics(
            [NewTopic(name, assignment=dict.fromkeys(range(COUNT), (1, 2)))]
        )
    wanted = [
        NewPartitionReassignment(TopicPartition(name, number), (2, 3))
        for number in range(COUNT)
        for name in names
    ]
    reassigning = PartitionReassignment(cluster.leadership, cluster.images)
    assert await reassigning.reassign(wanted, may_change_factor=True) == [None] * len(wanted)
    assert len(await reassigning.under_way(None)) == len(wanted)
    assert await is_what_the_registry_says(cluster)


@pytest.mark.parametrize("writes", range(20))
async def test_a_controllers_death_leaves_a_topic_whole_or_gone(writes: int) -> None:
    cluster = await small_writes(1, 2, 3)
    dying = DyingStore(cluster.registry)
    cluster.controller.writer._store = cluster.controller._store = dying
    dying.writes_left = writes
    steps = 0
    try:
        await cluster.controller.create_topics([NewTopic("t", COUNT, 3)])
        steps = 1
        await cluster.controller.create_partitions([NewPartitions("t", 2 * COUNT)])
        steps = 2
        await cluster.controller.delete_topics(["t"])
        steps = 3
    except StoreConnectionLost:
        dying.expire()
    await MemoryStore(cluster.registry).delete(paths.CONTROLLER)
    after = Cluster.of_registry(cluster.registry)
    await after.controller.start()
    await after.leadership.refresh_brokers()
    await after.controller.complete_deletions()
    topics = after.images.current.topics
    if "t" in topics:
        assert len(topics["t"].partitions) in (COUNT, 2 * COUNT)
        assert all(leader > 0 and len(isr) == 3 for leader, isr in after.led())
        (outcome,) = await after.controller.create_topics([NewTopic("t")])
        assert isinstance(outcome, TopicAlreadyExists)
    else:
        assert steps in (0, 2, 3)
        assert await MemoryStore(cluster.registry).children(paths.DELETE_TOPICS) == []
    assert await is_what_the_registry_says(after)


async def test_a_step_that_is_too_large_is_refused_and_the_term_continues() -> None:
    cluster = await small_writes(1)
    failures: list[Exception] = []
    cluster.controller.writer.on_failure = failures.append
    await cluster.make_topic([1])
    key = "follower.replication.throttled.replicas"
    long = ",".join(f"{number}:1" for number in range(SMALL_BYTES // 4))
    change = AlterConfigOp(key, ConfigOperation.SET, long)
    with pytest.raises(PolicyViolation, match="write less"):
        await cluster.controller.incremental_alter_configs([(Resource(ResourceKind.TOPIC, "t"), [change])])
    assert failures == []
    await cluster.make_topic([1], name="u")
