"""What a coordinator does not understand in its log is neither served nor lost: foreign records and damage."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.coordination.shard import ShardState
from odradek.broker.groups.classic.members import JoinResult
from odradek.broker.groups.classic.schema import encode_classic_group_key
from odradek.broker.groups.schema import (
    encode_offset_key,
)
from odradek.foundation.errors import CoordinatorNotAvailable, OdradekError
from odradek.wire.protocol.group_partitions import partition_of
from odradek.wire.records.builder import build_batch
from tests.support.coordinator_world import GroupWorld, in_world, join_request, result_of
from tests.support.stories import told_by

SHARE_GROUP_KEY = b"\0\x0b\0\1s"
STREAMS_GROUP_KEY = b"\0\x11\0\1s"
FOREIGN = {
    SHARE_GROUP_KEY: b"\0\0\0\0\0\1\0",
    STREAMS_GROUP_KEY: b"\0\0\0\0\0\7\0",
    b"\0": b"a key too short to have a kind",
    b"\0\1\0\xff": b"an offset key that ends early",
    encode_offset_key("g", "t", 7): b"\0\x63an offset of version 99",
    encode_classic_group_key("later"): b"\0\x63a group of version 99",
}


async def commit(world: GroupWorld, group_id: str, partition: int, offset: int) -> list[OdradekError | None]:
    return await world.commit(("t", partition, offset), group_id=group_id)


@told_by(in_world, partitions=1)
async def test_records_that_cannot_be_read_survive_the_cleaner_as_they_are(world: GroupWorld) -> None:
    await commit(world, "g", 0, 1)
    world.log.append(0, build_batch([(0, key, value) for key, value in FOREIGN.items()]))
    await commit(world, "g", 2, 3)
    for _ in range(2):
        await world.restart()
        assert sorted(row[2:] for row in world.groups.offsets.list_committed()) == [(0, 1), (2, 3)]
        world.log.compact()
        assert world.log.newest_values().items() >= FOREIGN.items()


@told_by(in_world, partitions=1)
async def test_removed_and_overwritten_foreign_records_stay_gone(world: GroupWorld) -> None:
    world.log.append(0, build_batch([(0, key, value) for key, value in FOREIGN.items()]))
    world.log.append(0, build_batch([(0, SHARE_GROUP_KEY, None), (0, STREAMS_GROUP_KEY, b"newer")]))
    await world.restart()
    assert await commit(world, "g", 7, 70) == [None]  # the key of the offset from a later version
    await world.member("later")
    world.log.compact()
    values = world.log.newest_values()
    assert SHARE_GROUP_KEY not in values
    assert values[STREAMS_GROUP_KEY] == b"newer"
    assert len([key for key in values if values[key] == FOREIGN.get(key)]) == 2  # only the two damaged keys
    await world.restart()
    assert [row[2:] for row in world.groups.offsets.list_committed()] == [(7, 70)]


@pytest.mark.parametrize("way", ["commit", "delete offsets", "delete group"])
@told_by(in_world, partitions=1, topics={"t": 1})
async def test_a_later_record_of_its_key_ends_a_foreign_record(world: GroupWorld, way: str) -> None:
    key = encode_offset_key("g", "t", 0)
    world.log.append(0, build_batch([(0, key, b"\0\x63")]))
    await world.restart()
    assert await commit(world, "g", 0, 4) == [None]
    if way == "delete offsets":
        assert await result_of(world.groups.offsets.delete("g", [("t", 0)])) == [None]
    elif way == "delete group":
        assert await result_of(world.groups.admin.delete("g")) is None
    world.log.compact()
    assert (key in world.log.newest_values()) == (way == "commit")
    await world.restart()
    committed = [row[2:] for row in world.groups.offsets.list_committed()]
    assert committed == ([(0, 4)] if way == "commit" else [])


# --- damage -------------------------------------------------------------------------------------------------

PARTITION = partition_of("damaged", 2)
SOUND = next(name for name in "abc" if partition_of(name, 2) != PARTITION)


async def damaged_world(world: GroupWorld) -> bytes:
    """A partition of three batches, a bit of the second flipped; gives the batch as it was."""
    for number in range(3):
        assert await commit(world, "damaged", number, number) == [None]
    assert await commit(world, SOUND, 0, 5) == [None]
    await world.groups.stop()
    whole = world.log.batches[PARTITION][1]
    torn = bytearray(whole)
    torn[-1] ^= 1
    world.log.batches[PARTITION][1] = bytes(torn)
    world.groups = world._coordinator()
    world.groups.start()
    await asyncio.sleep(0.5)
    return whole


@told_by(in_world, topics={"t": 3})
async def test_a_damaged_partition_is_refused_whole_and_the_others_are_served(world: GroupWorld) -> None:
    await damaged_world(world)
    before = list(world.log.batches[PARTITION])
    with pytest.raises(
        CoordinatorNotAvailable, match=f"partition {PARTITION} of __consumer_offsets.*left as it"
    ):
        world.groups.offsets.fetch("damaged", member_id=None, member_epoch=-1, partitions=None)
    with pytest.raises(CoordinatorNotAvailable):
        await commit(world, "damaged", 0, 9)
    joined = await result_of(world.groups.join("damaged", join_request()))
    assert isinstance(joined, JoinResult)
    assert isinstance(joined.error, CoordinatorNotAvailable)
    assert await commit(world, SOUND, 0, 6) == [None]
    assert [row.group_id for row in world.groups.admin.list_groups()] == [SOUND]
    assert (world.groups.runtime.failed_partitions, world.groups.runtime.is_loading) == (1, False)
    world.set_topics({})  # topics come and go, time passes: nothing is written where not all is known
    await asyncio.sleep(1000)
    assert world.log.batches[PARTITION] == before


@told_by(in_world)
async def test_a_mended_partition_is_served_without_a_restart(world: GroupWorld) -> None:
    whole = await damaged_world(world)
    await asyncio.sleep(300)
    assert world.groups.runtime.failed_partitions == 1
    world.log.batches[PARTITION][1] = whole
    await world.groups.runtime.wait_until_loaded()
    assert world.groups.runtime.failed_partitions == 0
    found = world.groups.offsets.fetch("damaged", member_id=None, member_epoch=-1, partitions=None)
    assert {key[1]: committed.offset for key, committed in found.items()} == {0: 0, 1: 1, 2: 2}


@told_by(in_world, topics={"t": 3, "u": 1})
async def test_a_topic_deleted_during_a_failed_load_is_forgotten(world: GroupWorld) -> None:
    whole = await damaged_world(world)
    world.set_topics({"u": 1})
    world.log.batches[PARTITION][1] = whole
    await world.groups.runtime.wait_until_loaded()
    await asyncio.sleep(1)
    assert list(world.groups.offsets.list_committed()) == []


@told_by(in_world)
async def test_a_damaged_partition_that_moves_away_is_left_alone(world: GroupWorld) -> None:
    await damaged_world(world)
    (failed,) = [shard for shard in world.groups.runtime.shards() if shard.state is ShardState.FAILED]
    world.log.led.discard(PARTITION)
    world.groups.runtime.refresh()
    await asyncio.sleep(100)
    assert failed.state is ShardState.CLOSED
    assert world.groups.runtime.failed_partitions == 0
