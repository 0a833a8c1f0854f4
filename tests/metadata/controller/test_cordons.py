"""A cordoned broker keeps what it has and is given nothing new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.foundation.errors import InvalidReplicaAssignment, InvalidReplicationFactor, InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.controller.partition_reassignment import PartitionReassignment
from odradek.metadata.controller.requests import (
    AlterConfigOp,
    ConfigOperation,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    Resource,
    TopicMetadataAndConfig,
)
from odradek.metadata.image import cordons
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ImageHolder, ResourceKind
from tests.support.lone_controller import ENDPOINTS, LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.stories import told_by


def run(story: Callable[[LoneController], Awaitable[None]]) -> None:
    async def whole() -> None:
        one = await LoneController.start(store=MemoryStore(MemoryRegistry()))
        for broker_id in (2, 3):
            await one.controller.register_broker(endpoints=ENDPOINTS, broker_id=broker_id)
        await story(one)

    asyncio.run(whole())


async def set_cordon(one: LoneController, broker: str, value: str | None) -> object:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = AlterConfigOp(cordons.CORDON_KEY, operation, value)
    (outcome,) = await one.controller.incremental_alter_configs(
        [(Resource(ResourceKind.BROKER, broker), [change])]
    )
    return outcome


@told_by(run)
async def test_new_replicas_avoid_a_cordoned_broker(one: LoneController) -> None:
    await one.controller.create_topics([NewTopic("before", assignment={0: (3,)})])
    assert await set_cordon(one, "3", "*") is None
    (made,) = await one.controller.create_topics([NewTopic("t", 12, 2)])
    assert isinstance(made, TopicMetadataAndConfig)
    await one.controller.create_partitions([NewPartitions("before", 9)])
    image = one.images.current
    assert {broker for part in image.topics["t"].partitions for broker in part.replicas} == {1, 2}
    assert {broker for part in image.topics["before"].partitions[1:] for broker in part.replicas} == {
        1,
        2,
    }
    assert image.topics["before"].partitions[0].replicas == (3,)
    for request, error in (
        (NewTopic("three", 1, 3), InvalidReplicationFactor),
        (NewTopic("there", assignment={0: (3, 1)}), InvalidReplicaAssignment),
    ):
        (refused,) = await one.controller.create_topics([request])
        assert isinstance(refused, error)
        assert "new replicas" in str(refused)
    assert await set_cordon(one, "3", None) is None
    (made,) = await one.controller.create_topics([NewTopic("three", 1, 3)])
    assert isinstance(made, TopicMetadataAndConfig)


@told_by(run)
async def test_partitions_move_off_it_and_about_on_it_but_not_onto_it(one: LoneController) -> None:
    await one.controller.create_topics([NewTopic("t", assignment={0: (3, 1), 1: (1, 2)})])
    await set_cordon(one, "3", "*")
    leadership = Leadership(one.store, one.controller.writer, one.images, one.dynamic, one.controller)
    reassigning = PartitionReassignment(leadership, one.images)
    wanted = {0: (1, 3), 1: (1, 3)}
    outcomes = await reassigning.reassign(
        [
            NewPartitionReassignment(TopicPartition("t", number), replicas)
            for number, replicas in wanted.items()
        ],
        may_change_factor=True,
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], InvalidReplicaAssignment)
    assert "cordoned" in str(outcomes[1])


@pytest.mark.parametrize(("broker", "value"), [("3", "logs"), ("3", "*,/logs"), ("", "*"), ("9", "*")])
@told_by(run)
async def test_what_cannot_be_cordoned(one: LoneController, broker: str, value: str) -> None:
    assert isinstance(await set_cordon(one, broker, value), InvalidRequest)


@told_by(run)
async def test_a_broker_that_is_down_can_be_cordoned_while_it_has_replicas(one: LoneController) -> None:
    await one.controller.create_topics([NewTopic("t", assignment={0: (3, 1)})])
    await one.store.delete("/brokers/ids/3")
    await one.controller.writer.begin(one.controller.writer.term)
    assert 3 not in one.images.current.brokers
    assert await set_cordon(one, "3", "*") is None
    assert cordons.is_cordoned(one.images.current, 3)
    assert set(cordons.placeable(one.images.current).racks) == {1, 2}


@told_by(run)
async def test_a_controller_ignores_settings_of_a_broker_with_its_id(one: LoneController) -> None:
    images = ImageHolder(one.images.current)
    as_controller = DynamicSettings(one.settings, images, is_broker=False)
    as_broker = DynamicSettings(one.settings, images)
    for name, value in (("1", "7"), ("", "5")):
        change = AlterConfigOp("log.cleaner.threads", ConfigOperation.SET, value)
        await one.controller.incremental_alter_configs([(Resource(ResourceKind.BROKER, name), [change])])
    images.replace(one.images.current)
    assert as_broker.current.text("log.cleaner.threads") == "7"
    assert as_controller.current.text("log.cleaner.threads") == "5"
