"""A broker's membership: one live broker for each id, fenced when the registry gives it up, back by itself. On every
registry that several members share.
"""

from __future__ import annotations

import asyncio

import pytest

from odradek.foundation.errors import DuplicateBrokerRegistration
from odradek.metadata.image import paths
from odradek.metadata.image.features import highest_levels
from odradek.metadata.image.image import BrokerImage
from odradek.metadata.registry.store import SessionState
from tests.support.registering import Member, registered
from tests.support.registries import SharedMemoryRegistry, SharedRegistry, SharedZookeeper, in_its_registry


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.integration)])
def world(request: pytest.FixtureRequest) -> SharedRegistry:
    if request.param == "memory":
        return SharedMemoryRegistry()
    return SharedZookeeper(request.getfixturevalue("zookeeper"))


@in_its_registry
async def test_a_broker_is_a_member_from_its_start_to_its_stop(world: SharedRegistry) -> None:
    member, watcher = await Member.of(world), await world.open()
    broker = await member.start()
    assert broker == BrokerImage(
        1,
        {"PLAINTEXT": ("::1", 9092)},
        "r1",
        broker.epoch,
        stopped_cleanly=False,
        features=highest_levels(),
    )
    assert member.serving_as() == broker == await registered(watcher)
    await member.registration.stop()
    assert member.serving_as() is None
    await watcher.sync()
    assert await watcher.children(paths.BROKER_IDS) == []
    again = await member.start()
    assert again.epoch > broker.epoch
    await member.leave()
    await watcher.close()
    assert member.callbacks.words == []


@in_its_registry
async def test_a_live_id_is_refused_and_named(world: SharedRegistry) -> None:
    member = await Member.of(world)
    broker = await member.start()
    other = await Member.of(world, identity="directory-2", port=9999, wait_seconds=0.05)
    with pytest.raises(DuplicateBrokerRegistration, match=r"a live broker at ::1:9092 has the id 1 already"):
        await other.start()
    assert await registered(other.store) == broker
    third = await Member.of(world, broker_id=2, identity="directory-3")
    assert (await third.start()).epoch > broker.epoch
    for each in (other, third, member):
        await each.leave()
    assert member.callbacks.words == []


@in_its_registry
async def test_the_node_of_a_dead_process_is_waited_out(world: SharedRegistry) -> None:
    dead, member = await Member.of(world, identity="directory-old"), await Member.of(world)
    first = await dead.start()
    start = asyncio.ensure_future(member.start())
    await asyncio.sleep(0)
    await world.expire(dead.store)
    # It does not come back before the other is there: its task is ended, as its process would be.
    await dead.registration._stop_reconciling()
    assert (await start).epoch > first.epoch
    await member.leave()
    await dead.store.close()


@in_its_registry
async def test_a_process_replaces_the_node_of_its_predecessor_without_waiting(world: SharedRegistry) -> None:
    dead, member = await Member.of(world), await Member.of(world)
    first = await dead.start()
    await dead.registration._stop_reconciling()
    # The old session lives on: its process was killed a moment ago.
    second = await member.start()
    assert second.epoch > first.epoch
    assert await registered(member.store) == second
    await member.leave()
    await dead.store.close()


@in_its_registry
async def test_a_broker_whose_session_expires_is_fenced_and_gets_a_new_epoch(world: SharedRegistry) -> None:
    member, watcher = await Member.of(world), await world.open()
    first = await member.start()
    fenced_at: list[tuple[SessionState, BrokerImage | None]] = []
    member.store.on_session_change(lambda state: fenced_at.append((state, member.serving_as())))
    await world.expire(member.store)
    await member.callbacks.until("fenced", "registered")
    assert (SessionState.EXPIRED, None) in fenced_at
    second = member.serving_as()
    assert second is not None
    assert second.epoch > first.epoch
    await watcher.sync()
    assert await registered(watcher) == second
    await member.leave()
    await watcher.close()


@in_its_registry
async def test_a_possible_loss_is_reported_until_the_controller_has_read_it(world: SharedRegistry) -> None:
    member = await Member.of(world)
    assert not (await member.start()).stopped_cleanly
    await world.expire(member.store)
    await member.callbacks.until("fenced", "registered")
    assert not (await registered(member.store)).stopped_cleanly
    member.registration.mark_seen()
    await world.expire(member.store)
    await member.callbacks.until("fenced", "registered")
    assert (await registered(member.store)).stopped_cleanly
    await member.leave()


@in_its_registry
async def test_a_registration_that_somebody_deletes_is_made_anew(world: SharedRegistry) -> None:
    member, operator = await Member.of(world), await world.open()
    first = await member.start()
    await operator.delete(paths.broker(1))
    await member.callbacks.until("fenced", "registered")
    assert (await registered(member.store)).epoch > first.epoch
    await member.leave()
    await operator.close()


@in_its_registry
async def test_a_broker_whose_id_was_taken_meanwhile_stays_fenced_and_says_so(world: SharedRegistry) -> None:
    member = await Member.of(world, wait_seconds=0.05)
    other = await Member.of(world, identity="directory-2", wait_seconds=60)
    await member.start()
    waiting = asyncio.ensure_future(other.start())
    # Both want the id as soon as it is free. Keep the one that gave it up from a new session until the other has
    # it.
    is_free = asyncio.Event()
    reopen = member.store.reopen

    async def reopen_late() -> None:
        await is_free.wait()
        await reopen()

    member.store.reopen = reopen_late  # type: ignore[method-assign]
    await world.expire(member.store)
    taken = await waiting
    is_free.set()
    await member.callbacks.until("fenced", "refused")
    assert member.serving_as() is None
    assert await registered(other.store) == taken
    await member.leave()
    await other.leave()
