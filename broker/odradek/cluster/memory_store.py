"""The registry in memory, for tests and simulations: one shared tree, any number of sessions on it.

`sever` and `expire` make the faults that a real registry has: a session that cannot reach it, and one that was
given up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from odradek.cluster.node_tree import NodeTree
from odradek.cluster.store import ANY_VERSION, Create, Delete, Node, Operation, Put, WatchCallback
from odradek.cluster.watches import Watches
from odradek.foundation.errors import StoreConnectionLost, StoreSessionExpired


class MemoryRegistry:
    """What several sessions share: the tree and everybody's watches."""

    def __init__(self) -> None:
        self.tree = NodeTree()
        self.sessions: dict[int, MemoryStore] = {}
        self.numbers = itertools.count(1)

    def run(self, operations: Sequence[Operation], *, session: int) -> None:
        """Do all operations or none, and tell every session's watchers."""
        paths = self.tree.apply(self.tree.plan(operations, session=session))
        for store in self.sessions.values():
            store.watches.notify(paths)


class MemoryStore:
    """One session; without `registry` it has a tree of its own."""

    def __init__(self, registry: MemoryRegistry | None = None) -> None:
        self.registry = registry or MemoryRegistry()
        self.watches = Watches()
        self._session = next(self.registry.numbers)
        self._is_severed = False
        self._is_expired = False
        self.registry.sessions[self._session] = self

    async def get(self, path: str) -> Node:
        self._reach()
        return self.registry.tree.get(path)

    async def exists(self, path: str) -> bool:
        self._reach()
        return self.registry.tree.exists(path)

    async def children(self, path: str) -> list[str]:
        self._reach()
        return self.registry.tree.children(path)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        await self.multi([Put(path, data, version)])
        return self.registry.tree.get(path).version

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> None:
        self._reach()
        self.registry.run(operations, session=self._session)

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        return self.watches.add(path, callback)

    async def close(self) -> None:
        self.expire()

    def expire(self) -> None:
        """The registry gives this session up: its ephemeral nodes go, and whatever it asks fails."""
        if self._is_expired:
            return
        self._is_expired = True
        self.watches.clear()
        del self.registry.sessions[self._session]
        paths = self.registry.tree.owned_by(self._session)
        self.registry.run([Delete(path) for path in paths], session=self._session)

    def sever(self) -> None:
        """Cut the session off until `mend`: whatever it asks fails with StoreConnectionLost, and nothing is done."""
        self._is_severed = True

    def mend(self) -> None:
        self._is_severed = False

    def _reach(self) -> None:
        if self._is_expired:
            raise StoreSessionExpired("the registry's session is over; open a new one")
        if self._is_severed:
            raise StoreConnectionLost("the registry does not answer")
