"""Registries that several members of a test share, and whose sessions it can end: in memory, and in a real ZooKeeper.

Members that work on both are written once. Left out: SQLite, which has one user and whose session never ends.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Store
from odradek.metadata.registry.zookeeper_store import ZookeeperStore
from tests.support import loop
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.zookeeper import ZooKeeper, end_session


class SharedRegistry(Protocol):
    """A registry for several members."""

    # How long the registry keeps a session that is silent.
    session_timeout_seconds: float

    async def open(self) -> Store: ...

    async def expire(self, store: Store) -> None:
        """Give the store's session up; the store knows when this returns."""
        ...

    def run(self, scenario: Coroutine[Any, Any, None]) -> None: ...


class SharedMemoryRegistry:
    """In virtual time."""

    session_timeout_seconds = 10.0

    def __init__(self) -> None:
        self.registry = MemoryRegistry()

    async def open(self) -> MemoryStore:
        return MemoryStore(self.registry, session_timeout_seconds=self.session_timeout_seconds)

    async def expire(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.expire()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        loop.run(scenario)


class SharedZookeeper:
    """Below a node of its own. Sessions are long: on a busy machine a short one could expire unasked."""

    session_timeout_seconds = 20.0

    def __init__(self, server: ZooKeeper) -> None:
        self._server = server
        self._connect = f"{server.connect}/{uuid.uuid4()}"

    async def open(self) -> Store:
        timeout_ms = round(self.session_timeout_seconds * 1000)
        entries = {
            "zookeeper.session.timeout.ms": str(timeout_ms),
            "zookeeper.connection.timeout.ms": "20000",
        }
        return await open_registry(self._connect, entries=entries)

    async def expire(self, store: Store) -> None:
        assert isinstance(store, ZookeeperStore)
        await end_session(store, self._server.connect)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(scenario)


def in_its_registry(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on the time of its registry, which is its argument `world`."""

    @functools.wraps(story)
    def test(*, world: SharedRegistry, **named: Any) -> None:
        world.run(story(world=world, **named))

    return test


class Callbacks:
    """The callbacks that an owner got, in order, and a way to wait for the next."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._news = asyncio.Event()

    def note(self, word: str) -> Callable[..., None]:
        """A callback that notes `word`."""

        def noted(*_: object) -> None:
            self.words.append(word)
            self._news.set()

        return noted

    async def until(self, *words: str) -> None:
        """Wait until exactly these callbacks were made since the last call, which forgets them."""
        while len(self.words) < len(words):
            self._news.clear()
            await self._news.wait()
        made, self.words = self.words[: len(words)], self.words[len(words) :]
        assert made == list(words)
