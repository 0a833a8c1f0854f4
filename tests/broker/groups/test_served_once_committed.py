"""What a coordinator has loaded is served once it is committed: until then another leader may be without it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.coordination.runtime import COMMIT_WAIT_SECONDS_NOTED
from odradek.broker.groups.schema import OffsetAndMetadata, encode_offset_key, encode_offset_value
from odradek.foundation.errors import CoordinatorLoadInProgress, NotCoordinator
from odradek.wire.records.builder import build_batch
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.stories import told_by


async def take_over(world: GroupWorld, *, uncommitted: int) -> None:
    """A new coordinator loads ten offsets; the replicas do not have the last ones yet."""
    for offset in range(10):
        record = (encode_offset_key("g", "t", 0), encode_offset_value(OffsetAndMetadata(offset)))
        world.log.append(0, build_batch([(0, *record)]))
    await world.groups.stop()
    world.log.uncommitted = uncommitted
    world.groups = world._coordinator()
    world.groups.start()
    await asyncio.sleep(1)


@told_by(in_world, partitions=1)
async def test_requests_are_refused_until_the_replicas_have_what_is_loaded(world: GroupWorld) -> None:
    await take_over(world, uncommitted=1)
    with pytest.raises(CoordinatorLoadInProgress):
        world.groups.runtime.shard("g")
    world.log.uncommitted = 0
    await world.groups.runtime.wait_until_loaded()
    assert [row[3] for row in world.groups.offsets.list_committed()] == [9]


@told_by(in_world, partitions=1)
async def test_a_log_that_is_committed_is_served_at_once(world: GroupWorld) -> None:
    before = asyncio.get_running_loop().time()
    await take_over(world, uncommitted=0)
    await world.groups.runtime.wait_until_loaded()
    assert asyncio.get_running_loop().time() == before + 1


@told_by(in_world, partitions=1)
async def test_a_partition_that_moves_away_in_between_is_never_served(
    world: GroupWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await take_over(world, uncommitted=1)
    (shard,) = world.groups.runtime.shards()
    world.log.led.clear()
    await asyncio.sleep(1)  # the partition is gone, and the coordinator does not know it yet
    world.groups.runtime.refresh()
    await asyncio.sleep(1)
    assert world.groups.runtime.shards() == []
    with pytest.raises(NotCoordinator):
        shard.check_serving()
    assert caplog.records == []


@told_by(in_world, partitions=1)
async def test_a_long_wait_is_logged_once(world: GroupWorld, caplog: pytest.LogCaptureFixture) -> None:
    await take_over(world, uncommitted=1)
    assert caplog.records == []
    await asyncio.sleep(10 * COMMIT_WAIT_SECONDS_NOTED)
    (record,) = caplog.records
    assert record.getMessage() == (
        "the offsets topic, partition 0, is loaded and not served yet: too few replicas have its last records; "
        "it is served once they do"
    )
