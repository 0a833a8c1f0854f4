"""LeaveGroup over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.LEAVE_GROUP


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_leave(world: GroupWorld, version: int) -> None:
    joined = await world.member()
    if version < 3:
        answer = await ask(world, API, version, group_id="g", member_id=joined.member_id)
        assert answer.error_code == 0
        assert (await ask(world, API, version, group_id="g", member_id=joined.member_id)).error_code == 25
        assert (await ask(world, API, version, group_id="no", member_id="m")).error_code == 25
        return
    members = [{"member_id": joined.member_id}, {"member_id": "x"}, {"group_instance_id": "i"}]
    answer = await ask(world, API, version, group_id="g", members=members)
    assert answer.error_code == 0
    assert [row.error_code for row in answer.members] == [0, 25, 25]
    unknown = await ask(world, API, version, group_id="no", members=members)
    assert [row.error_code for row in unknown.members] == [25, 25, 25]


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_a_group_without_a_name(world: GroupWorld, version: int) -> None:
    assert (await ask(world, API, version, group_id="")).error_code == 24
