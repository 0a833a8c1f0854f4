"""The interface to the registry: a tree of small versioned nodes, as ZooKeeper keeps it.

A path is `/` or `/a/b`; a node has bytes, a version (0 when created, one more at each `set`) and children. A
parent must exist before its child, and a node with children cannot be deleted. An ephemeral node lives as long as
the session that made it. `multi` does all of its operations or none. Watches are lasting: a callback is called on
the event loop after each change of its node or of the node's list of children, until it is taken back; it says
where, not what, so read again.

Implementations: `memory_store` (tests, simulation), `sqlite_store` (one node, one process), later ZooKeeper; one
contract suite holds them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.foundation.errors import NoNode

ANY_VERSION: Final = -1


class Create(NamedTuple):
    """Make a node. NodeExists when it is there, NoNode when its parent is not."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Put(NamedTuple):
    """Replace a node's bytes. NoNode; VersionConflict when its version is not the one given."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a node. NoNode; VersionConflict; NodeNotEmpty."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Only see that a node has this version. NoNode; VersionConflict."""

    path: str
    version: int


Operation = Create | Put | Delete | Check


class Node(NamedTuple):
    """What `get` answers."""

    data: bytes
    version: int


WatchCallback = Callable[[str], None]


class Store(Protocol):
    """The registry. Every method may also raise StoreConnectionLost and StoreSessionExpired."""

    async def get(self, path: str) -> Node:
        """The node's bytes and version. Raises NoNode."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the node's children, sorted. Raises NoNode."""
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        """Raises NodeExists, or NoNode when the parent is missing."""
        ...

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the bytes; the new version. Raises NoNode, VersionConflict."""
        ...

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Raises NoNode, VersionConflict, NodeNotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """All or none, in order; raises what the first failing operation raises."""
        ...

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        """Call `callback(path)` after each change; the result takes the watch back. The node need not exist yet."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""
        ...


async def get_or_none(store: Store, path: str) -> Node | None:
    """The node, or None when there is none."""
    try:
        return await store.get(path)
    except NoNode:
        return None


async def children_or_none(store: Store, path: str) -> list[str]:
    """The children's names, or none when the node is not there."""
    try:
        return await store.children(path)
    except NoNode:
        return []
