"""The share coordinator over time: epochs, snapshots, pruning, restarts, damaged requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from odradek.broker.share_states.coordinator import ShareCoordinator
from odradek.broker.share_states.states import ShareKey, ShareState, StateChange, StateRange, StateSummary
from odradek.foundation.errors import OdradekError
from odradek.metadata.image.image import ImageHolder
from tests.support import loop
from tests.support.coordinator_world import image, settings, topic_id
from tests.support.loop import LoopClock
from tests.support.offsets_log import MemoryOffsetsLog
from tests.support.stories import told_by

SETTINGS = {
    "share_coordinator_snapshot_update_records_per_snapshot": 3,
    "share_coordinator_load_buffer_size": 5 << 20,
    "share_coordinator_state_topic_compression_codec": 0,
    "share_coordinator_write_timeout_ms": 5000,
    "share_coordinator_state_topic_prune_interval_ms": 300_000,
}
KEY = ShareKey("g", topic_id("work"), 0)
ACKNOWLEDGED = 2


class ShareWorld:
    """One share coordinator over a log that outlives it."""

    def __init__(self, **changes: Any) -> None:
        self.log = MemoryOffsetsLog(2)
        self.images = ImageHolder(image({"work": 2}))
        self.settings: Any = settings(SETTINGS, changes)
        self.shares = self._coordinator()

    def _coordinator(self) -> ShareCoordinator:
        return ShareCoordinator(self.log, clock=LoopClock(), settings=self.settings, images=self.images)

    async def restart(self) -> None:
        await self.shares.stop()
        self.shares = self._coordinator()
        self.shares.start()
        await self.shares.runtime.wait_until_loaded()

    async def initialize(self, *, state_epoch: int = 1, start_offset: int = -1) -> str | None:
        return await said(self.shares.initialize(KEY, state_epoch=state_epoch, start_offset=start_offset))

    async def write(
        self, *batches: StateRange, start: int = -1, complete: int = -1, **epochs: int
    ) -> str | None:
        fields = {"state_epoch": 1, "leader_epoch": 0, **epochs}
        return await said(
            self.shares.write(
                KEY,
                StateChange(**fields, start_offset=start, delivery_complete_count=complete, batches=batches),
            )
        )

    async def read(self, *, leader_epoch: int = 0) -> ShareState | str:
        try:
            return await self.shares.read(KEY, leader_epoch=leader_epoch)
        except OdradekError as error:
            return type(error).__name__


async def said(outcome: OdradekError | Awaitable[OdradekError | None] | None) -> str | None:
    """The name of the error; None where there was none."""
    error = await outcome if isinstance(outcome, Awaitable) else outcome
    return None if error is None else type(error).__name__


def in_share_world(story: Callable[[ShareWorld], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Run `story` with a started coordinator."""

    async def run() -> None:
        world = ShareWorld(**changes)
        world.shares.start()
        await world.shares.runtime.wait_until_loaded()
        try:
            await story(world)
        finally:
            await world.shares.stop()

    loop.run(run())


def done(first: int, last: int, count: int = 1) -> StateRange:
    return StateRange(first, last, ACKNOWLEDGED, count)


@told_by(in_share_world)
async def test_a_state_is_begun_changed_and_read_after_a_restart(world: ShareWorld) -> None:
    assert await world.initialize() is None
    assert await world.read() == ShareState(1, -1, (), 0, -1)
    assert await world.write(done(10, 14), start=10, complete=5) is None
    assert await world.write(done(15, 19), complete=10) is None
    wanted = ShareState(1, 10, (done(10, 19),), 0, 10)
    assert await world.read() == wanted
    await world.restart()
    assert await world.read() == wanted
    assert world.shares.summarize(KEY) == StateSummary(1, 0, 10, 10)


@told_by(in_share_world)
async def test_only_what_was_begun_is_read_and_written(world: ShareWorld) -> None:
    assert await world.read() == "InvalidRequest"
    assert await world.write(done(0, 1)) == "InvalidRequest"
    assert world.shares.summarize(KEY) == StateSummary(0, 0, -1, -1)
    world.images.replace(image({}))
    assert await world.initialize() == "UnknownTopicOrPartition"


@told_by(in_share_world)
async def test_former_leaders_and_former_states_are_fenced(world: ShareWorld) -> None:
    await world.initialize()
    assert isinstance(await world.read(leader_epoch=5), ShareState)
    assert await world.write(done(0, 1), leader_epoch=4) == "FencedLeaderEpoch"
    assert await world.read(leader_epoch=4) == "FencedLeaderEpoch"
    await world.restart()
    assert await world.write(done(0, 1), leader_epoch=4) == "FencedLeaderEpoch", (
        "a restart forgets the leader"
    )
    assert await world.initialize(state_epoch=2, start_offset=7) is None
    assert await world.write(done(0, 1), leader_epoch=5) == "FencedStateEpoch"
    assert await world.initialize(state_epoch=1) == "FencedStateEpoch"
    assert await world.write(done(7, 8), leader_epoch=5, state_epoch=2, start=7) is None


@told_by(in_share_world)
async def test_snapshots_replace_updates_now_and_then(world: ShareWorld) -> None:
    await world.initialize()
    for number in range(10):
        assert await world.write(done(number, number)) is None
    machine = world.shares.runtime.shard(KEY.coordinator_key).machine
    assert machine.states[KEY].head.snapshot_epoch == 2
    await world.restart()
    state = await world.read()
    assert isinstance(state, ShareState)
    assert state.batches == (done(0, 9),)


@told_by(in_share_world, share_coordinator_snapshot_update_records_per_snapshot=500)
async def test_records_that_are_replaced_are_deleted(world: ShareWorld) -> None:
    await world.initialize()
    for number in range(1200):
        await world.write(done(number, number), start=number)
    partition = world.shares.runtime.partition_for(KEY.coordinator_key)
    before = await world.read()
    await asyncio.sleep(301)
    start, end = world.log.bounds(partition)
    assert end - start <= 2
    await world.restart()
    assert await world.read() == before


@told_by(in_share_world)
async def test_states_of_a_topic_that_went_while_nobody_looked_are_forgotten(world: ShareWorld) -> None:
    await world.initialize()
    await world.shares.stop()
    world.images.replace(image({}))
    await world.restart()
    await asyncio.sleep(0.01)
    assert KEY not in world.shares.runtime.shard(KEY.coordinator_key).machine.states


@told_by(in_share_world)
async def test_a_deleted_state_may_begin_again(world: ShareWorld) -> None:
    await world.initialize()
    await world.write(done(0, 5), start=3)
    assert await said(world.shares.delete(KEY)) is None
    assert await said(world.shares.delete(KEY)) is None
    assert await world.read() == "InvalidRequest"
    assert await world.initialize(state_epoch=0) is None
    assert await world.read() == ShareState(0, -1, (), 0, -1)


@told_by(in_share_world)
async def test_batches_without_offsets_are_refused(world: ShareWorld) -> None:
    await world.initialize()
    for batch in (StateRange(3, 2, 2, 1), StateRange(-1, 2, 2, 1)):
        assert await world.write(batch) == "InvalidRequest"
