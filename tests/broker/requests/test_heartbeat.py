"""Heartbeat over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.broker.coordination.shard import ShardState
from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world, turns
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.HEARTBEAT


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_heartbeats(world: GroupWorld, version: int) -> None:
    joined = await world.member()

    async def code(member_id: str = joined.member_id, generation: int = 1, group_id: str = "g") -> int:
        answer = await ask(
            world, API, version, group_id=group_id, generation_id=generation, member_id=member_id
        )
        return int(answer.error_code)

    assert await code() == 0
    assert await code(generation=2) == 22
    assert await code("x") == 25
    assert await code(group_id="") == 24
    assert await code(group_id="none") == 25
    waiting = world.join(requires_known_member_id=False)
    await turns()
    assert await code() == 27
    waiting.cancel()


@told_by(in_world)
async def test_heartbeats_succeed_while_groups_are_loaded(world: GroupWorld) -> None:
    for shard in world.groups.runtime.shards():
        shard.state = ShardState.LOADING
    answer = await ask(world, API, 4, group_id="g", generation_id=1, member_id="m")
    assert answer.error_code == 0
