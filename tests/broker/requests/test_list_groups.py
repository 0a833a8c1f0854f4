"""ListGroups over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.coordination.shard import ShardState
from odradek.wire.protocol.api import ApiKey
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.LIST_GROUPS


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world, topics={"t": 1})
async def test_list(world: GroupWorld, version: int) -> None:
    await world.member("c1")
    await ConsumerMember(world, "m", group_id="c2").must_beat()

    async def listed(**filters: Any) -> dict[str, Any]:
        answer = await ask(world, API, version, **filters)
        assert answer.error_code == 0
        return {row.group_id: row for row in answer.groups}

    rows = await listed()
    assert rows.keys() == {"c1", "c2"}
    assert {row.protocol_type for row in rows.values()} == {"consumer"}
    if version >= 4:
        assert {row.group_state for row in rows.values()} == {"Stable"}
        assert (await listed(states_filter=("empty",))) == {}
        assert (await listed(states_filter=("STABLE", "Empty"))).keys() == {"c1", "c2"}
    if version >= 5:
        assert {name: row.group_type for name, row in rows.items()} == {"c1": "classic", "c2": "consumer"}
        assert (await listed(types_filter=("Classic",))).keys() == {"c1"}


@told_by(in_world)
async def test_while_loading(world: GroupWorld) -> None:
    world.groups.runtime.shards()[0].state = ShardState.LOADING
    assert (await ask(world, API, 5)).error_code == 14
