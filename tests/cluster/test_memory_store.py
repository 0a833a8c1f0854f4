"""Sessions of the registry in memory, and their faults."""

import asyncio

import pytest

from odradek.cluster.memory_store import MemoryRegistry, MemoryStore
from odradek.foundation.errors import NoNode, StoreConnectionLost, StoreSessionExpired


def test_ephemeral_nodes_go_with_their_session_and_others_hear_of_it() -> None:
    async def scenario() -> None:
        registry = MemoryRegistry()
        mine, theirs = MemoryStore(registry), MemoryStore(registry)
        heard: list[str] = []
        await mine.create("/ids")
        theirs.watch("/ids", heard.append)
        await mine.create("/ids/1", b"x", ephemeral=True)
        with pytest.raises(NoNode, match="ephemeral"):
            await mine.create("/ids/1/child")
        assert await theirs.children("/ids") == ["1"]
        await asyncio.sleep(0)
        mine.expire()
        await asyncio.sleep(0)
        assert heard == ["/ids", "/ids"]
        assert await theirs.children("/ids") == []
        with pytest.raises(StoreSessionExpired):
            await mine.get("/ids")
        await mine.close()

    asyncio.run(scenario())


def test_a_severed_session_changes_nothing_until_it_is_mended() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        store.sever()
        with pytest.raises(StoreConnectionLost):
            await store.create("/a")
        store.mend()
        assert not await store.exists("/a")

    asyncio.run(scenario())
