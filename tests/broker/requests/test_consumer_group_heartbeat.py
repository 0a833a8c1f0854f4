"""ConsumerGroupHeartbeat over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world, topic_id
from tests.support.handler_requests import ask, supported, versions
from tests.support.stories import told_by

API = ApiKey.CONSUMER_GROUP_HEARTBEAT


async def heartbeat(world: GroupWorld, version: int, **fields: Any) -> Any:
    return await ask(world, API, version, **supported(API, version, **{"group_id": "g", **fields}))


JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout": 60_000,
    "subscribed_topic_names": ("t",),
    "topic_partitions": (),
}


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world, topics={"t": 2})
async def test_join_stay_and_leave(world: GroupWorld, version: int) -> None:
    joined = await heartbeat(world, version, member_id="m" if version >= 1 else "", **JOIN)
    assert (joined.error_code, joined.member_epoch) == (0, 1)
    assert joined.member_id == "m" if version >= 1 else joined.member_id
    assert joined.heartbeat_interval.total_seconds() == 5
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_id("t"), (0, 1))
    quiet = await heartbeat(world, version, member_id=joined.member_id, member_epoch=1)
    assert (quiet.error_code, quiet.assignment) == (0, None)
    owned = [{"topic_id": topic_id("t"), "partitions": (0, 1)}]
    full = await heartbeat(
        world,
        version,
        **{**JOIN, "member_id": joined.member_id, "member_epoch": 1, "topic_partitions": owned},
    )
    assert full.assignment == joined.assignment
    left = await heartbeat(world, version, member_id=joined.member_id, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert left.heartbeat_interval.total_seconds() == 0


@told_by(in_world, topics={"t": 2})
async def test_refusals_say_why(world: GroupWorld) -> None:
    without_id = await heartbeat(world, 1, member_id="", **JOIN)
    assert (without_id.error_code, without_id.error_message) == (42, "MemberId can't be empty.")
    assert (await heartbeat(world, 1, member_id="m", member_epoch=3)).error_code == 69
    await heartbeat(world, 1, member_id="m", **JOIN)
    assert (await heartbeat(world, 1, member_id="m", member_epoch=3)).error_code == 110
    assert (await heartbeat(world, 1, member_id="x", member_epoch=3)).error_code == 25
    pattern = {**JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": "("}
    assert (await heartbeat(world, 1, member_id="y", **pattern)).error_code == 128
    odd = {**JOIN, "server_assignor": "mine"}
    assert (await heartbeat(world, 1, member_id="y", **odd)).error_code == 112


@told_by(in_world, topics={"t": 2, "u": 1, "uu": 1})
async def test_patterns_since_version_1(world: GroupWorld) -> None:
    pattern = {**JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": "t|u"}
    joined = await heartbeat(world, 1, member_id="m", **pattern)
    assert {row.topic_id for row in joined.assignment.topic_partitions} == {topic_id("t"), topic_id("u")}
