"""SyncGroup over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, supported, versions
from tests.support.stories import told_by

API = ApiKey.SYNC_GROUP


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_the_leader_assigns(world: GroupWorld, version: int) -> None:
    joined = await world.join(requires_known_member_id=False)
    fields = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
    }
    answer = await ask(world, API, version, **supported(API, version, **fields))
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"all")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    stale = await ask(world, API, version, **supported(API, version, **{**fields, "generation_id": 4}))
    assert stale.error_code == 22


@told_by(in_world)
async def test_the_protocol_must_be_named_since_version_5(world: GroupWorld) -> None:
    joined = await world.member()
    answer = await ask(world, API, 5, group_id="g", generation_id=1, member_id=joined.member_id)
    assert answer.error_code == 23
