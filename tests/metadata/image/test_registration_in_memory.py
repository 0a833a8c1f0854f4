"""A broker's membership where the registry falls silent, loses answers and dies, and in the file of a single node.

Only a registry in memory can be made to do so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from odradek.foundation.errors import DuplicateBrokerRegistration
from odradek.foundation.registry_errors import StoreConnectionLost
from odradek.metadata.image import paths
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.metadata.registry.store import Delete
from tests.support.loop import VirtualTimeLoop
from tests.support.memory_registry import MemoryStore
from tests.support.registering import Member, registered
from tests.support.registries import SharedMemoryRegistry
from tests.support.registry_faults import RegistryFaults
from tests.support.stories import told_by


def in_memory(scenario: Callable[[SharedMemoryRegistry], Coroutine[Any, Any, None]]) -> None:
    world = SharedMemoryRegistry()
    world.run(scenario(world))


@told_by(in_memory)
async def test_silence_is_reported_after_the_timeout_and_fences_after_expiry(
    world: SharedMemoryRegistry,
) -> None:
    store = await world.open()
    member = Member(store)
    broker = await member.start()
    store.sever()
    await asyncio.sleep(9.9)
    assert member.callbacks.words == []
    await asyncio.sleep(0.2)
    await member.callbacks.until("silent")
    assert member.serving_as() == broker
    await asyncio.sleep(100)
    assert member.callbacks.words == []
    store.mend()
    await member.callbacks.until("fenced", "registered")
    # The registry had given it up at the same time.
    again = member.serving_as()
    assert again is not None
    assert again.epoch > broker.epoch
    await member.leave()


@told_by(in_memory)
async def test_a_session_that_outlived_the_silence_keeps_its_epoch(world: SharedMemoryRegistry) -> None:
    # The registry itself was away, and its sessions' time with it.
    store = MemoryStore(world.registry, session_timeout_seconds=10)
    member = Member(store)
    broker = await member.start()
    store.sever()
    store._stop_timer()
    for _ in range(2):
        await asyncio.sleep(30)
        await member.callbacks.until("silent")
        assert member.serving_as() == broker
        store.mend()
        await member.callbacks.until("answering")
        assert member.serving_as() == broker
        store.sever()
        store._stop_timer()
    store.mend()
    await member.leave()


@told_by(in_memory)
async def test_a_process_stopped_longer_than_a_session_is_fenced_and_reads_again(
    world: SharedMemoryRegistry,
) -> None:
    store = await world.open()
    member = Member(store)
    broker = await member.start()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await asyncio.sleep(100)
    loop.stand_still(7)
    await asyncio.sleep(3)
    assert member.callbacks.words == []
    loop.stand_still(11)
    # The registry is away: no event reports that the session is over.
    store.sever()
    store._stop_timer()
    await asyncio.sleep(0.001)
    assert member.serving_as() is None
    assert member.callbacks.words == ["fenced"]
    store.mend()
    await member.callbacks.until("fenced", "registered")
    assert member.serving_as() == broker
    await member.leave()


@told_by(in_memory)
async def test_who_stands_still_while_the_registry_is_silent_is_fenced(world: SharedMemoryRegistry) -> None:
    store = await world.open()
    member = Member(store)
    broker = await member.start()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    store.sever()
    store._stop_timer()
    await asyncio.sleep(30)
    await member.callbacks.until("silent")
    loop.stand_still(9)
    await asyncio.sleep(3)
    assert member.callbacks.words == []
    loop.stand_still(11)
    await asyncio.sleep(0.001)
    assert member.callbacks.words == ["fenced"]
    store.mend()
    await member.callbacks.until("fenced", "registered")
    assert member.serving_as() == broker
    await member.leave()


@told_by(in_memory)
async def test_short_cuts_do_not_fence(world: SharedMemoryRegistry) -> None:
    store = await world.open()
    member = Member(store)
    broker = await member.start()
    for _ in range(5):
        store.sever()
        await asyncio.sleep(8)
        store.mend()
        await asyncio.sleep(8)
    assert member.serving_as() == broker
    assert member.callbacks.words == []
    await member.leave()


@told_by(in_memory)
async def test_a_registration_whose_answer_was_lost_is_recognised(world: SharedMemoryRegistry) -> None:
    store = await world.open()
    member = Member(store, identity="")
    for path in ("/brokers", paths.BROKER_IDS, paths.BROKER_EPOCHS):
        await store.create(path)

    async def lose_the_answer(operations: Any) -> Any:
        world.registry.run(operations, session=store.session_id)
        store.sever()
        raise StoreConnectionLost("lost")

    store._write = lose_the_answer  # type: ignore[method-assign]
    with pytest.raises(StoreConnectionLost):
        await member.start()
    del store._write
    assert world.registry.tree.exists(paths.broker(1))
    store.mend()
    broker = await member.start()
    assert await registered(store) == broker
    await member.leave()


@told_by(in_memory)
async def test_a_session_that_ends_with_the_answer_leaves_nobody_registered(
    world: SharedMemoryRegistry,
) -> None:
    store = await world.open()
    member = Member(store)
    write = store._write

    async def end_with_the_answer(operations: Any) -> Any:
        changes = await write(operations)
        if paths.broker(1) in changes:
            store.expire()
        return changes

    store._write = end_with_the_answer  # type: ignore[method-assign]
    with pytest.raises(StoreConnectionLost):
        await member.start()
    assert member.serving_as() is None
    await member.leave()


@told_by(in_memory)
async def test_an_epoch_that_another_session_took_is_not_reused(world: SharedMemoryRegistry) -> None:
    store, other = await world.open(), await Member.of(world, broker_id=2)
    member = Member(store)
    write = store._write
    taken: list[int] = []

    async def be_late(operations: Any) -> Any:
        if not taken and any(operation.path == paths.broker(1) for operation in operations):
            taken.append((await other.start()).epoch)
        return await write(operations)

    store._write = be_late  # type: ignore[method-assign]
    broker = await member.start()
    assert broker.epoch > taken[0]
    assert broker.epoch == world.registry.tree.get(paths.BROKER_EPOCHS).version
    await member.leave()
    await other.leave()


@told_by(in_memory)
async def test_a_broker_gives_way_to_a_later_run_of_itself(world: SharedMemoryRegistry) -> None:
    # Both claim one log directory: the later one was let in by its lock, so it is the one that has it.
    first, second = await Member.of(world, wait_seconds=1), await Member.of(world)
    await first.start()
    broker = await second.start()
    await first.callbacks.until("fenced", "refused")
    assert await registered(first.store) == broker == second.serving_as()
    assert second.callbacks.words == []
    await first.leave()
    await second.leave()


def test_members_of_one_id_never_serve_at_once_however_bad_the_registry() -> None:
    async def play(world: SharedMemoryRegistry, seed: int) -> None:
        chance = random.Random(seed)
        world.registry.faults = RegistryFaults(
            chance,
            latency_seconds=(0, 0.5),
            lost_requests=0.03,
            lost_answers=0.03,
            reconnect_seconds=(0, 15),
        )
        members = [Member(await world.open(), identity=f"directory-{number}") for number in range(2)]
        epochs: list[int] = []

        async def live(member: Member) -> None:
            while True:
                try:
                    epochs.append((await member.start()).epoch)
                    await asyncio.sleep(chance.uniform(5, 60))
                    await member.registration.stop()
                except (StoreConnectionLost, DuplicateBrokerRegistration):
                    await asyncio.sleep(chance.uniform(0, 3))
                except Exception:
                    await member.store.reopen()

        lives = [asyncio.ensure_future(live(member)) for member in members]
        for _ in range(2_000):
            await asyncio.sleep(0.25)
            serving = [member for member in members if member.serving_as() is not None]
            assert len(serving) <= 1, f"seed {seed}"
        assert len(epochs) > 3
        assert sorted(set(epochs)) == epochs, f"seed {seed}"
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        world.registry.faults = None
        for member in members:
            member.store.mend()  # type: ignore[attr-defined]
            await member.registration.stop()

    for seed in range(10):
        in_memory(partial(play, seed=seed))


def test_a_single_node_registers_in_its_file(tmp_path: Any) -> None:
    async def scenario() -> None:
        store = SqliteStore.open(str(tmp_path / "registry"))
        member = Member(store)
        broker = await member.start()
        await store.multi([Delete(paths.broker(1))])
        await member.callbacks.until("fenced", "registered")
        assert (await registered(store)).epoch > broker.epoch
        await member.leave()

    SharedMemoryRegistry().run(scenario())
