"""OffsetCommit over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.offset_commit import FIRST_WITH_TOPIC_IDS
from odradek.foundation.errors import KafkaStorageError
from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask, supported
from tests.support.loop import WALL_MS_AT_START
from tests.support.stories import told_by

API = ApiKey.OFFSET_COMMIT


async def commit(world: GroupWorld, version: int, **fields: Any) -> list[list[int]]:
    """Commit for a topic that is there and one that is not; gives their error codes."""
    partition: dict[str, Any] = {"partition_index": 1, "committed_offset": 42, "committed_metadata": "note"}
    if version >= 6:
        partition["committed_leader_epoch"] = 3
    topics = [{"name": name, "partitions": [partition]} for name in ("t", "gone")]
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": topics, **fields}
    answer = await ask(world, API, version, **supported(API, version, **values))
    assert [topic.name for topic in answer.topics] == ["t", "gone"]
    return [[int(row.error_code) for row in topic.partitions] for topic in answer.topics]


@pytest.mark.parametrize("version", range(2, FIRST_WITH_TOPIC_IDS))
@told_by(in_world, topics={"t": 4})
async def test_commit(world: GroupWorld, version: int) -> None:
    assert await commit(world, version, retention_time=5000) == [[0], [3]]
    (row,) = world.groups.offsets.fetch("g", member_id=None, member_epoch=-1, partitions=None).values()
    expiry = WALL_MS_AT_START + 5000 if version <= 4 else -1
    epoch = 3 if version >= 6 else -1
    assert row == OffsetAndMetadata(42, epoch, "note", WALL_MS_AT_START, expiry)


@pytest.mark.thorough
@pytest.mark.parametrize("version", [2, 9])
@pytest.mark.parametrize("partition", [4, -1])
@told_by(in_world, topics={"t": 4})
async def test_a_commit_to_a_missing_partition_is_refused(
    world: GroupWorld, version: int, partition: int
) -> None:
    rows = [{"partition_index": index, "committed_offset": 1} for index in (partition, 3)]
    topics = [{"name": "t", "partitions": rows}]
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": topics}
    answer = await ask(world, API, version, **fields)
    assert [int(row.error_code) for row in answer.topics[0].partitions] == [3, 0]
    assert [row[1:3] for row in world.groups.offsets.list_committed()] == [("t", 3)]


@told_by(in_world, topics={"t": 4})
async def test_failures_are_those_of_every_partition(world: GroupWorld) -> None:
    assert await commit(world, 9, generation_id_or_member_epoch=4) == [[69], [3]]
    assert await commit(world, 8, generation_id_or_member_epoch=4) == [[22], [3]]
    world.log.fail_with = KafkaStorageError("gone")
    assert await commit(world, 9) == [[16], [3]]
