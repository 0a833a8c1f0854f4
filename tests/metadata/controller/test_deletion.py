"""A deleted topic is gone, at every step at which the controller may die."""

import pytest

from odradek.foundation import errors, registry_errors
from odradek.metadata.controller.requests import DeletedTopic, NewTopic, TopicMetadataAndConfig
from odradek.metadata.image import paths
from odradek.metadata.image.image import ClusterImage, ResourceKind
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import DyingStore, MemoryRegistry, MemoryStore


async def test_a_deleted_topic_leaves_nothing_to_its_successor() -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics(
        [NewTopic(name="t", partition_count=2, config={"retention.ms": "5"}), NewTopic(name="u")]
    )
    topics = dict(broker.images.current.topics)
    seen: list[tuple[ClusterImage, bool]] = []

    def follow(old: ClusterImage, new: ClusterImage) -> None:
        registry = broker.store.registry.tree  # type: ignore[attr-defined]
        seen.append((new, registry.exists(paths.topic("t"))))

    broker.images.subscribe(follow)
    by_name, by_id, unknown, again = await broker.controller.delete_topics(["t", topics["u"].id, "x", "t"])
    assert by_name == DeletedTopic(name="t", id=topics["t"].id)
    assert by_id == DeletedTopic(name="u", id=topics["u"].id)
    assert isinstance(unknown, errors.UnknownTopicOrPartition)
    assert isinstance(again, errors.UnknownTopicOrPartition)
    ((image, was_registered),) = seen
    assert (image.topics, image.topics_by_id, image.configs) == ({}, {}, {})
    assert was_registered, "files are put aside before the registry forgets the topic"
    for path in (paths.TOPICS, "/config/topics", paths.DELETE_TOPICS):
        assert await broker.store.children(path) == []
    (made,) = await broker.controller.create_topics([NewTopic(name="t")])
    assert isinstance(made, TopicMetadataAndConfig)
    assert made.id != topics["t"].id
    assert broker.images.current.config(ResourceKind.TOPIC, "t") == {}
    (outcome,) = await broker.controller.delete_topics([topics["t"].id])
    assert isinstance(outcome, errors.UnknownTopicId)


@pytest.mark.parametrize("writes", range(3))
async def test_death_at_any_step_ends_in_a_topic_that_is_whole_or_gone(writes: int) -> None:
    registry = MemoryRegistry()
    store = DyingStore(registry)
    broker = await LoneController.start(store=store)
    await broker.controller.create_topics([NewTopic(name="t", partition_count=2)])
    topic = broker.images.current.topics["t"]
    store.writes_left = writes
    if writes < 2:
        with pytest.raises(registry_errors.StoreConnectionLost):
            await broker.controller.delete_topics(["t"])
    else:
        await broker.controller.delete_topics(["t"])
    store.expire()

    after = await LoneController.start(store=MemoryStore(registry))
    if writes == 0:
        assert after.images.current.topics == {"t": topic}
        assert after.controller.pending_deletions == {}
        return
    assert after.images.current.topics == {}
    if writes == 1:
        assert after.controller.pending_deletions == {"t": topic.id}
        (early,) = await after.controller.create_topics([NewTopic(name="t")])
        assert isinstance(early, errors.TopicAlreadyExists)
        await after.controller.complete_deletions()
    assert after.controller.pending_deletions == {}
    assert await after.store.children(paths.TOPICS) == []
    assert await after.store.children(paths.DELETE_TOPICS) == []
    (made,) = await after.controller.create_topics([NewTopic(name="t")])
    assert isinstance(made, TopicMetadataAndConfig)


async def test_deletion_can_be_switched_off() -> None:
    broker = await LoneController.start({"delete.topic.enable": "false"})
    await broker.controller.create_topics([NewTopic(name="t")])
    (outcome,) = await broker.controller.delete_topics(["t"])
    assert isinstance(outcome, errors.TopicDeletionDisabled)
    assert "t" in broker.images.current.topics
