"""The common part of the stores with a `NodeTree`: the operations on nodes, and the watches.

A subclass defines how a read reaches the tree (`_read`) and how operations change it (`_write`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.metadata.registry.node_tree import Changes, NodeTree
from odradek.metadata.registry.session_listeners import SessionListeners
from odradek.metadata.registry.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    Operation,
    Put,
    SessionCallback,
    SessionState,
    WatchCallback,
)
from odradek.metadata.registry.watches import Watches

Answer = TypeVar("Answer")


class TreeStore:
    """One session of a registry in this process; `store.Store` describes the methods."""

    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree
        self.watches = Watches()
        self._listeners = SessionListeners()

    async def _read(self, work: Callable[[], Answer]) -> Answer:
        """The result of `work`, which reads the tree. Raises StoreConnectionLost, StoreSessionExpired."""
        raise NotImplementedError

    async def _write(self, operations: Sequence[Operation]) -> Changes:
        """Do all operations or none: every write uses this method. Raises the error of an operation."""
        raise NotImplementedError

    async def get(self, path: str) -> Node:
        return await self._read(lambda: self._tree.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._read(lambda: [self._tree.find(path) for path in paths])

    async def exists(self, path: str) -> bool:
        return await self._read(lambda: self._tree.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda: self._tree.children(path))

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> int:
        return (await self._write_one(Create(path, data, ephemeral))).created

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        return (await self._write_one(Put(path, data, version))).version

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._write([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._write(operations)

    async def sync(self) -> None:
        await self._read(lambda: None)

    async def protect(self, paths: Sequence[str], *, with_children: bool = False) -> list[str]:
        """Nothing: a registry of one process has no access lists."""
        return []

    async def _write_one(self, operation: Create | Put) -> Node:
        row = (await self._write([operation]))[operation.path]
        assert row is not None
        return row

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        return self.watches.add(path, callback)

    @property
    def session_state(self) -> SessionState:
        return self._listeners.state

    def on_session_change(self, callback: SessionCallback) -> Callable[[], None]:
        return self._listeners.add(callback)
