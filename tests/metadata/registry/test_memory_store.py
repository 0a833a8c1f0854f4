"""Sessions of the registry in memory, and their faults."""

import asyncio
import random

import pytest

from odradek.foundation import registry_errors
from odradek.metadata.registry.store import Put, SessionState
from tests.support.loop import run
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.registry_faults import RegistryFaults


async def test_ephemeral_nodes_go_with_their_session_and_others_hear_of_it() -> None:
    registry = MemoryRegistry()
    mine, theirs = MemoryStore(registry), MemoryStore(registry)
    heard: list[str] = []
    await mine.create("/ids")
    theirs.watch("/ids", heard.append)
    await mine.create("/ids/1", b"x", ephemeral=True)
    with pytest.raises(registry_errors.NoNode, match="ephemeral"):
        await mine.create("/ids/1/child")
    assert await theirs.children("/ids") == ["1"]
    assert (await theirs.get("/ids/1")).owner == mine.session_id
    await asyncio.sleep(0)
    mine.expire()
    await asyncio.sleep(0)
    assert heard == ["/ids", "/ids"]
    assert await theirs.children("/ids") == []
    with pytest.raises(registry_errors.StoreSessionExpired):
        await mine.get("/ids")
    await mine.close()


async def test_a_severed_session_changes_nothing_until_it_is_mended() -> None:
    store = MemoryStore()
    states: list[SessionState] = []
    store.on_session_change(states.append)
    store.sever()
    store.sever()
    with pytest.raises(registry_errors.StoreConnectionLost):
        await store.create("/a")
    store.mend()
    assert not await store.exists("/a")
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_a_reopened_session_reports_the_changes_that_its_watches_missed() -> None:
    registry = MemoryRegistry()
    store, other = MemoryStore(registry), MemoryStore(registry)
    states: list[SessionState] = []
    heard: list[str] = []
    store.on_session_change(states.append)
    await other.create("/a")
    for path in ("/a", "/b"):
        store.watch(path, heard.append)
    first = store.session_id
    store.expire()
    await other.put("/a", b"changed")
    with pytest.raises(registry_errors.StoreSessionExpired):
        await store.sync()
    await asyncio.gather(store.reopen(), store.reopen())
    await asyncio.sleep(0)
    assert heard == ["/a"]
    assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert store.session_id > first
    await store.close()
    with pytest.raises(registry_errors.StoreSessionExpired, match="closed"):
        await store.reopen()
    assert states[-1] is SessionState.CLOSED


@pytest.mark.parametrize("cut_seconds", [5, 20])
async def test_a_session_severed_beyond_its_timeout_sees_its_expiry_when_mended(cut_seconds: int) -> None:
    registry = MemoryRegistry()
    store, other = MemoryStore(registry, session_timeout_seconds=10), MemoryStore(registry)
    states: list[SessionState] = []
    store.on_session_change(states.append)
    await store.create("/e", ephemeral=True)
    store.sever()
    await asyncio.sleep(cut_seconds)
    outlived = cut_seconds < 10
    assert await other.exists("/e") == outlived
    assert states == [SessionState.SUSPENDED]
    store.mend()
    # The timer of an outage that ended in time does not end the session.
    await asyncio.sleep(20)
    assert states[1:] == [SessionState.CONNECTED if outlived else SessionState.EXPIRED]


async def test_a_lost_request_was_not_done_and_a_lost_answer_was() -> None:
    registry = MemoryRegistry()
    store = MemoryStore(registry, session_timeout_seconds=10)
    await store.create("/n")
    chance = random.Random(1)
    for faults, version in (
        (RegistryFaults(chance, lost_requests=1.0, reconnect_seconds=(1, 1)), 0),
        (RegistryFaults(chance, lost_answers=1.0, reconnect_seconds=(1, 1)), 1),
    ):
        registry.faults = faults
        with pytest.raises(registry_errors.StoreConnectionLost):
            await store.put("/n", b"x", version=0)
        assert store.session_state is SessionState.SUSPENDED
        registry.faults = None
        await asyncio.sleep(2)
        assert (await store.get("/n")).version == version
    with pytest.raises(registry_errors.VersionConflict):
        await store.put("/n", b"x", version=0)


async def test_a_cut_takes_what_is_under_way_with_it() -> None:
    registry = MemoryRegistry(faults=RegistryFaults(random.Random(1), latency_seconds=(1, 1)))
    store = MemoryStore(registry)
    on_its_way = asyncio.ensure_future(store.create("/a"))
    await asyncio.sleep(0.5)
    store.sever()
    store.mend()
    with pytest.raises(registry_errors.StoreConnectionLost):
        await on_its_way
    done_already = asyncio.ensure_future(store.create("/b"))
    await asyncio.sleep(1.5)
    store.sever()
    with pytest.raises(registry_errors.StoreConnectionLost):
        await done_already
    assert (registry.tree.exists("/a"), registry.tree.exists("/b")) == (False, True)


@pytest.mark.parametrize("seed", range(20))
def test_a_watch_then_a_read_see_the_last_value_on_a_lossy_connection(seed: int) -> None:
    async def scenario() -> None:
        registry = MemoryRegistry()
        writer, reader = MemoryStore(registry), MemoryStore(registry, session_timeout_seconds=2)
        await writer.create("/n", b"0")
        registry.faults = RegistryFaults(
            random.Random(seed),
            latency_seconds=(0, 0.3),
            lost_requests=0.1,
            lost_answers=0.1,
            reconnect_seconds=(0, 4),
        )
        changed = asyncio.Event()
        reader.watch("/n", lambda path: changed.set())
        reader.on_session_change(lambda state: changed.set())
        seen = b""

        async def follow() -> None:
            nonlocal seen
            while True:
                changed.clear()
                try:
                    await reader.reopen()
                    seen = (await reader.get("/n")).data
                except registry_errors.StoreConnectionLost:
                    pass
                except registry_errors.StoreSessionExpired:
                    continue
                await changed.wait()

        follower = asyncio.ensure_future(follow())
        for number in range(1, 30):
            await asyncio.sleep(0.2)
            registry.run([Put("/n", str(number).encode())], session=writer.session_id)
        registry.faults = None
        await asyncio.sleep(10)
        assert seen == b"29"
        follower.cancel()

    run(scenario())
