"""A group that only committed offsets lasts until its own tombstone, by which readers of the log forget it."""

from __future__ import annotations

import asyncio

from odradek.broker.groups.classic.schema import (
    KIND_CLASSIC_GROUP,
    ClassicGroupValue,
    decode_classic_group_value,
    encode_classic_group_key,
)
from odradek.broker.groups.schema import encode_offset_key
from odradek.foundation.errors import NotEnoughReplicas
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import records
from tests.support.coordinator_world import GroupWorld, in_world, result_of, turns
from tests.support.stories import told_by

DAY_SECONDS = 86_400


def stored(world: GroupWorld) -> list[tuple[bytes, bytes | None]]:
    """All records, in the log's order."""
    return [
        (bytes(record.key or b""), None if record.value is None else bytes(record.value))
        for batch in world.log.batches[0]
        for record in records(BatchView(memoryview(batch)))
    ]


async def commit(world: GroupWorld, *partitions: int, group_id: str = "g") -> None:
    found = await world.commit(*(("t", one, one) for one in partitions), group_id=group_id)
    assert found == [None] * len(partitions)


def states(world: GroupWorld) -> dict[str, str]:
    return {
        row.group_id: world.groups.admin.describe(row.group_id).state
        for row in world.groups.admin.list_groups()
    }


TOMBSTONES = [
    (encode_offset_key("g", "t", 0), None),
    (encode_offset_key("g", "t", 1), None),
    (encode_classic_group_key("g"), None),
]


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_a_deletion_writes_the_tombstone_of_a_group_that_only_committed(world: GroupWorld) -> None:
    await commit(world, 0, 1)
    assert await result_of(world.groups.admin.delete("g")) is None
    assert stored(world)[2:] == TOMBSTONES
    await world.restart()
    assert states(world) == {}


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_an_expiry_writes_it_too(world: GroupWorld) -> None:
    await commit(world, 0, 1)
    await asyncio.sleep(8 * DAY_SECONDS)
    await turns(10)
    assert stored(world)[2:] == TOMBSTONES
    assert states(world) == {}


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_a_group_without_offsets_is_empty_after_a_restart(world: GroupWorld) -> None:
    await commit(world, 0)
    deleted = await result_of(world.groups.offsets.delete("g", [("t", 0)]))
    assert deleted == [None]
    assert states(world) == {"g": "Empty"}
    await world.restart()
    assert states(world) == {"g": "Empty"}
    await world.groups.expiration.expire_offsets()
    await turns()
    assert stored(world)[-1] == (encode_classic_group_key("g"), None)
    assert states(world) == {}


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_a_log_without_the_tombstone_is_read_and_gets_it(world: GroupWorld) -> None:
    """Logs of before have deleted groups whose offsets alone were removed."""
    key = encode_offset_key("old", "t", 0)
    # A commit in version 3, which was written before.
    value = bytes.fromhex("0003000000000000002a0000000500056dc3a974610000018bcfe56800")
    for one in (value, None):
        world.log.append(0, build_batch([(0, key, one)]))
    kept = encode_offset_key("kept", "t", 0)
    world.log.append(0, build_batch([(0, kept, value)]))
    await world.restart()
    assert states(world) == {"old": "Empty", "kept": "Empty"}
    assert sorted(world.groups.offsets.list_committed()) == [("kept", "t", 0, 42)]
    await commit(world, 0, group_id="kept")
    await world.groups.expiration.expire_offsets()
    await turns()
    assert stored(world)[-1] == (encode_classic_group_key("old"), None)
    assert states(world) == {"kept": "Empty"}


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_the_first_join_writes_that_the_group_is_there(world: GroupWorld) -> None:
    await world.join("g", requires_known_member_id=True)
    ((key, value),) = stored(world)
    assert key == encode_classic_group_key("g") and value is not None
    found = decode_classic_group_value(value)
    assert found == ClassicGroupValue("", 0, None, None, found.state_timestamp_ms)
    await world.restart()
    assert states(world) == {"g": "Empty"}
    await world.member("g")
    kinds = [int.from_bytes(key[:2], "big") for key, _ in stored(world)]
    assert kinds == [KIND_CLASSIC_GROUP] * 2


@told_by(in_world, partitions=1, topics={"t": 2})
async def test_a_member_joins_also_where_that_record_cannot_be_written(world: GroupWorld) -> None:
    world.log.fail_with = NotEnoughReplicas("one of three")
    joined = world.join("g", requires_known_member_id=False)
    await turns()
    world.log.fail_with = None
    assert (await joined).error is None
