"""The interface to the registry: a tree of small versioned nodes, as in ZooKeeper.

A path is `/` or `/a/b`. A node has bytes, a version (0 when created, one more at each `put`) and children. A parent
must exist before its child, and a node with children cannot be deleted. `multi` does all of its operations or none. A
watch lasts until it is removed. The event loop calls its callback after changes of the node, or of the node's list of
children. The callback gets the path, not the change, so read again. Changes close together may be reported once, and
one change twice.

A store is one *session* at a time. An ephemeral node lives as long as the session that created it. The session is
suspended while the registry does not answer: every call raises StoreConnectionLost, and the ephemerals stay. The
session expires when the registry has not received anything from it for its timeout. Its ephemerals are then gone, and
every call raises StoreSessionExpired until a caller uses `reopen`. So no write is made in a session that its caller
does not know. Watches outlive both, and report what changed in between.

After StoreConnectionLost a write may have been done, or may still be done. Wait for the session, `sync`, read, and
decide again. Conditional writes make that safe: a higher version, or a node with this session as its `owner`, shows
that the write was done.

Implementations: `sqlite_store` (one node, one process) and `zookeeper_store`; `registries` chooses by name. Tests and
the simulation have one in memory. One contract suite covers all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, Protocol

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.registry_errors import NoNode, StoreWriteTooLarge

ANY_VERSION: Final = -1


class Create(NamedTuple):
    """Create a node. NodeExists if it exists, NoNode if its parent does not."""

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
    """Only check that a node has this version. NoNode; VersionConflict."""

    path: str
    version: int


Operation = Create | Put | Delete | Check

# The bytes of an operation in a request to ZooKeeper besides its path and data, with an access list.
_OVERHEAD_BYTES: Final = 200


def size_bytes(operation: Operation) -> int:
    """An upper estimate of an operation's bytes in a request."""
    data = operation.data if isinstance(operation, Create | Put) else b""
    return len(operation.path.encode()) + len(data) + _OVERHEAD_BYTES


class Node(NamedTuple):
    """The result of `get`.

    `created` is the number of the registry's change that created the node. A node created later has a higher number,
    also after a restart of the registry. `owner` is the session of an ephemeral node, 0 for a persistent one.
    """

    data: bytes
    version: int
    created: int = 0
    owner: int = 0


class SessionState(StrEnum):
    """The state of a store's session."""

    CONNECTED = "connected"
    # The registry does not answer; the session may live, or may have expired unnoticed.
    SUSPENDED = "suspended"
    # The registry expired the session. `reopen` starts a new one.
    EXPIRED = "expired"
    CLOSED = "closed"


WatchCallback = Callable[[str], None]
SessionCallback = Callable[[SessionState], None]


class Store(Protocol):
    """The registry. Every operation may also raise StoreConnectionLost and StoreSessionExpired."""

    @property
    def session_state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The number of the present session, or of the last when there is none; never 0."""

    @property
    def session_timeout_seconds(self) -> float | None:
        """The time that the registry keeps a session without any request; None when sessions end only by `close`."""

    @property
    def write_bytes_max(self) -> int | None:
        """The largest size of one write, by `size_bytes` of its operations; None without a limit."""

    def on_session_change(self, callback: SessionCallback) -> Callable[[], None]:
        """Call `callback(state)` on the event loop at each change; the result ends it.

        It is called before any operation can see the new state.
        """

    async def reopen(self) -> None:
        """Begin a new session after the last has expired; otherwise do nothing. Several callers may wait for the same
        session. Raises StoreConnectionLost when the registry does not answer within the connection timeout (call
        again), StoreSessionExpired when the store is closed.
        """

    async def sync(self) -> None:
        """Make the next reads see every write that was acknowledged to any session before this call."""

    async def get(self, path: str) -> Node:
        """The node's bytes and version. Raises NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes in the order of `paths`, None for a missing one: as many `get`, but much cheaper."""

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the node's children, sorted. Raises NoNode."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> int:
        """Create a node. Returns its `created`. Raises NodeExists; NoNode when the parent is missing or ephemeral."""

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        """Replace the bytes. Returns the new version. Raises NoNode, VersionConflict."""

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Raises NoNode, VersionConflict, NodeNotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Do all operations in their order, or none. Raises the error of the first failing operation, with its index in
        `.operation`. Raises StoreWriteTooLarge, without a request to the registry, for more than `write_bytes_max`.
        """

    async def protect(self, paths: Sequence[str], *, with_children: bool = False) -> list[str]:
        """Take from others what they may do to these nodes, and say in the log what was open. Those that belong to
        another user are returned, and are as before.

        Only ZooKeeper has access lists, and nodes that this session creates have theirs from the start.
        """

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        """Call `callback(path)` after changes; the result removes the watch. The node need not exist yet.

        A caller that watches first and then reads misses nothing.
        """

    async def close(self) -> None:
        """End the session. Its ephemeral nodes are deleted."""


def check_size(operations: Sequence[Operation], bytes_max: int) -> None:
    """Raise StoreWriteTooLarge for a write of more bytes."""
    size = sum(size_bytes(operation) for operation in operations)
    if size > bytes_max:
        raise StoreWriteTooLarge(
            f"a write of {size} bytes, first to {operations[0].path}, exceeds the registry's limit of {bytes_max}; "
            "write less, or in several steps"
        )


async def get_or_none(store: Store, path: str) -> Node | None:
    """The node, or None when there is none."""
    try:
        return await store.get(path)
    except NoNode:
        return None


async def children_or_none(store: Store, path: str) -> list[str]:
    """The children's names; none for a missing node."""
    try:
        return await store.children(path)
    except NoNode:
        return []


async def missing(store: Store, paths: Iterable[str]) -> list[Operation]:
    """The creations of those of `paths` that are not there."""
    return [Create(path) for path in paths if not await store.exists(path)]
