"""FindCoordinator: the leader of the group's partition, by the listener that was asked."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, offsets_topic, refuse_topic, versions
from tests.support.stories import told_by

API = ApiKey.FIND_COORDINATOR


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_the_coordinator_is_found(world: GroupWorld, version: int) -> None:
    offsets_topic(world)
    if version >= 4:
        answer = await ask(world, API, version, key_type=0, coordinator_keys=("g", "h"))
        assert [row.key for row in answer.coordinators] == ["g", "h"]
        row = answer.coordinators[0]
    else:
        row = answer = await ask(world, API, version, key="g")
    assert (row.error_code, row.node_id, row.host, row.port) == (0, 0, "broker.test", 9092)


@told_by(in_world)
async def test_the_first_to_ask_has_the_topic_made(world: GroupWorld) -> None:
    async def make_topic() -> None:
        offsets_topic(world)

    world.log.ensure_topic = make_topic  # type: ignore[method-assign]
    assert (await ask(world, API, 3, key="g")).error_code == 0
    world.set_topics({})
    world.log.ensure_topic = refuse_topic  # type: ignore[method-assign]
    assert (await ask(world, API, 3, key="g")).error_code == 15


@told_by(in_world)
async def test_what_is_not_found(world: GroupWorld) -> None:
    offsets_topic(world, is_broker_there=False)
    answer = await ask(world, API, 3, key="g")
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (15, -1, "", -1)
    assert (await ask(world, API, 3, key="x", key_type=7)).error_code == 42
    assert (await ask(world, API, 5, key_type=2, coordinator_keys=("x",))).coordinators[0].error_code == 42
