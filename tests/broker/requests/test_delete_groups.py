"""DeleteGroups over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world, result_of
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.DELETE_GROUPS


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_delete(world: GroupWorld, version: int) -> None:
    joined = await world.member("g1")
    await result_of(world.groups.leave("g1", [(joined.member_id, None)]))
    await world.member("g2")
    answer = await ask(world, API, version, groups_names=("g1", "g2", "no", ""))
    codes = {row.group_id: int(row.error_code) for row in answer.results}
    assert codes == {"g1": 0, "g2": 68, "no": 69, "": 69}
    if version >= 3:
        texts = {row.group_id: row.error_message for row in answer.results}
        assert texts["g1"] is None
        assert "1 member" in texts["g2"]
