"""OffsetFetch over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.offset_fetch import FIRST_WITH_TOPIC_IDS
from odradek.wire.protocol.api import ApiKey
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, result_of
from tests.support.handler_requests import ask
from tests.support.stories import told_by

API = ApiKey.OFFSET_FETCH
# `test_topic_ids` has the versions with ids of topics.
BY_NAME = range(1, FIRST_WITH_TOPIC_IDS)


async def committed(world: GroupWorld) -> None:
    commits = [("t", 0, OffsetAndMetadata(5, 2, "note")), ("u", 1, OffsetAndMetadata(6))]
    await result_of(
        world.groups.offsets.commit(
            "g", member_id="", instance_id=None, generation=-1, version=9, commits=commits
        )
    )


async def fetch(
    world: GroupWorld,
    version: int,
    names: dict[str, tuple[int, ...]] | None,
    *,
    group_id: str = "g",
    **fields: Any,
) -> tuple[int, dict[Any, list[tuple[int, int, str, int]]]]:
    """The group's error, and by topic (partition, offset, metadata, error)."""
    topics = None
    if names is not None:
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in names.items()]
    if version >= 8:
        groups = [{"group_id": group_id, "topics": topics, **fields}]
        group = (await ask(world, API, version, groups=groups)).groups[0]
        assert group.group_id == group_id
    else:
        group = await ask(world, API, version, group_id=group_id, topics=topics)
    rows = {
        topic.name: [
            (row.partition_index, row.committed_offset, row.metadata, int(row.error_code))
            for row in topic.partitions
        ]
        for topic in group.topics
    }
    return int(getattr(group, "error_code", 0)), rows


@pytest.mark.parametrize("version", BY_NAME)
@told_by(in_world, topics={"t": 4, "u": 2})
async def test_what_is_committed_and_what_is_not(world: GroupWorld, version: int) -> None:
    await committed(world)
    assert await fetch(world, version, {"t": (0, 1)}) == (
        0,
        {"t": [(0, 5, "note", 0), (1, -1, "", 0)]},
    )
    assert await fetch(world, version, {"t": (0,)}, group_id="no") == (0, {"t": [(0, -1, "", 0)]})


@pytest.mark.parametrize("version", BY_NAME[1:])
@told_by(in_world, topics={"t": 4, "u": 2})
async def test_all_of_a_group(world: GroupWorld, version: int) -> None:
    await committed(world)
    code, rows = await fetch(world, version, None)
    assert code == 0
    assert rows.keys() == {"t", "u"}


@pytest.mark.parametrize("version", BY_NAME)
@told_by(in_world, topics={"t": 4})
async def test_another_broker_coordinates(world: GroupWorld, version: int) -> None:
    world.log.led.clear()
    world.groups.runtime.refresh()
    code, rows = await fetch(world, version, {"t": (0,)})
    if version < 2:
        assert rows == {"t": [(0, -1, "", 16)]}
    else:
        assert (code, rows) == (16, {})


@told_by(in_world, topics={"t": 4})
async def test_members_of_consumer_groups_name_their_epoch(world: GroupWorld) -> None:
    await ConsumerMember(world, "m").must_beat()
    assert (await fetch(world, 9, None, member_id="m", member_epoch=1))[0] == 0
    assert (await fetch(world, 9, None, member_id="m", member_epoch=2))[0] == 113
    assert (await fetch(world, 9, None, member_id="x", member_epoch=1))[0] == 25
