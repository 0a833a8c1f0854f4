"""DescribeGroups over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, turns
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.DESCRIBE_GROUPS


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world, topics={"t": 1})
async def test_describe(world: GroupWorld, version: int) -> None:
    joined = await world.member()
    await ConsumerMember(world, "m", group_id="new").must_beat()
    answer = await ask(world, API, version, groups=("g", "no", "new"))
    stable, missing, other_type = answer.groups
    assert (stable.error_code, stable.group_state, stable.protocol_data) == (0, "Stable", "range")
    (member,) = stable.members
    assert (member.member_id, member.client_id, member.client_host) == (
        joined.member_id,
        "client",
        "/127.0.0.1",
    )
    assert bytes(member.member_assignment) == b"assigned-" + joined.member_id.encode()
    assert bytes(member.member_metadata) == joined.members[0][2]
    for row in (missing, other_type):
        assert (row.error_code, row.group_state) == (69 if version >= 6 else 0, "Dead")
    if version >= 6:
        assert missing.error_message == "Group no not found."
    waiting = world.join(requires_known_member_id=False)
    await turns()
    (moving,) = (await ask(world, API, version, groups=("g",))).groups
    assert (moving.group_state, moving.protocol_data) == ("PreparingRebalance", "")
    assert [bytes(row.member_assignment) for row in moving.members] == [b"", b""]
    waiting.cancel()


@told_by(in_world)
async def test_operations_are_included_on_request(world: GroupWorld) -> None:
    await world.member()
    asked = await ask(world, API, 6, groups=("g",), include_authorized_operations=True)
    assert asked.groups[0].authorized_operations > 0
    assert (await ask(world, API, 6, groups=("g",))).groups[0].authorized_operations == -(2**31)
