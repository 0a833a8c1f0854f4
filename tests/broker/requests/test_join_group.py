"""JoinGroup over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, supported, versions
from tests.support.stories import told_by

API = ApiKey.JOIN_GROUP


async def join(world: GroupWorld, version: int, **fields: Any) -> Any:
    values = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **fields,
    }
    return await ask(world, API, version, **supported(API, version, **values))


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world)
async def test_a_member_joins(world: GroupWorld, version: int) -> None:
    answer = await join(world, version)
    if version >= 4:
        assert answer.error_code == 79
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = await join(world, version, member_id=answer.member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("client-")
    assert [(row.member_id, bytes(row.metadata)) for row in answer.members] == [(answer.member_id, b"meta")]
    if version >= 7:
        assert answer.protocol_type == "consumer"


@pytest.mark.parametrize("version", [8, 9])
@told_by(in_world)
async def test_a_static_leader_that_returns_need_not_assign(world: GroupWorld, version: int) -> None:
    first = await join(world, version, group_instance_id="i")
    sync = ApiKey.SYNC_GROUP
    synced = await ask(
        world,
        sync,
        5,
        group_id="g",
        generation_id=1,
        member_id=first.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": first.member_id, "assignment": b"all"}],
    )
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"all")
    again = await join(world, version, group_instance_id="i")
    assert again.generation_id == 1
    if version >= 9:
        assert (again.leader, again.skip_assignment) == (again.member_id, True)
    else:
        assert again.leader == first.member_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"session_timeout": 1}, 26),
        ({"member_id": "nobody"}, 25),
        ({"protocols": []}, 23),
        ({"protocol_type": ""}, 23),
    ],
)
@told_by(in_world)
async def test_refusals(world: GroupWorld, fields: dict[str, Any], code: int) -> None:
    answer = await join(world, 9, **fields)
    assert (answer.error_code, answer.generation_id, answer.members) == (code, -1, ())
