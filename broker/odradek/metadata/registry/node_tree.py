"""The registry's tree in memory: checks a batch of operations, and computes its changes. No I/O, no waiting. `plan`
checks operations one after the other, each against the tree after the ones before, and returns the rows that change.
`apply` makes the changes. Between the two a store may write the rows to disk, so that nothing is visible before it is
durable. `TreeStore` is the common part of such stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from odradek.foundation.registry_errors import NodeExists, NodeNotEmpty, NoNode, StoreError, VersionConflict
from odradek.metadata.registry.session_listeners import SessionListeners
from odradek.metadata.registry.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    Put,
    SessionCallback,
    SessionState,
    WatchCallback,
)
from odradek.metadata.registry.watches import NodeWatches

Answer = TypeVar("Answer")

# Characters that ZooKeeper refuses in a path, as the inside of a regular expression's class. These are control
# characters, surrogates (and so all beyond 16 bits), the private area, and the specials.
UNFIT_CHARACTERS: Final = "\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff\\U00010000-\\U0010ffff"
_UNFIT: Final = re.compile(f"(?:^|/)[.]{{1,2}}(?:/|$)|[{UNFIT_CHARACTERS}]")

# The changes of a batch: the new row of each path, or None for a deleted node.
Changes = dict[str, Node | None]
# The nodes that a batch creates, by parent: a deletion looks at its own children alone.
Below = dict[str, list[str]]
_UNCHANGED: Final = object()


def parent_of(path: str) -> str:
    """`/a` for `/a/b`; `/` for `/a`."""
    return path.rpartition("/")[0] or "/"


def check_path(path: str) -> None:
    """Raises ValueError for a path that not every registry accepts. The characters are those that ZooKeeper refuses;
    `cluster.paths.escape` replaces them.
    """
    if path != "/" and (not path.startswith("/") or path.endswith("/") or "//" in path):
        raise ValueError(f"{path!r} is not a path: it must begin with / and must not end with it")
    if _UNFIT.search(path) is not None:
        raise ValueError(
            f"{path!r} is not a path: it has a step of . or .., or a character that cannot be in one"
        )


class NodeTree:
    """All nodes by path, and the names of their children."""

    def __init__(self, rows: Iterable[tuple[str, Node]] = (), *, last_change: int = 0) -> None:
        self._rows: dict[str, Node] = {"/": Node(b"", 0)}
        self._children: dict[str, set[str]] = {"/": set()}
        # The number of the newest batch that was applied.
        self.last_change = 0
        self.apply(dict(sorted(rows)))
        self.last_change = last_change

    def get(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise NoNode(f"the registry has no node {path}")
        return node

    def find(self, path: str) -> Node | None:
        return self._rows.get(path)

    def exists(self, path: str) -> bool:
        return path in self._rows

    def children(self, path: str) -> list[str]:
        names = self._children.get(path)
        if names is None:
            raise NoNode(f"the registry has no node {path}")
        return sorted(names)

    def list_owned(self, session: int) -> list[str]:
        """The ephemeral nodes of a session."""
        return [path for path, row in self._rows.items() if row.owner == session]

    def plan(self, operations: Sequence[Operation], *, session: int) -> Changes:
        """The changes of the operations, without making them. Raises the error of the first impossible operation."""
        changes: Changes = {}
        below: Below = {}
        for index, operation in enumerate(operations):
            try:
                self._plan_one(operation, changes, below, session=session)
            except StoreError as error:
                error.operation = index
                raise
        return changes

    def _plan_one(self, operation: Operation, changes: Changes, below: Below, *, session: int) -> None:
        if isinstance(operation, Create):
            self._plan_create(operation, changes, below, session=session)
            return
        row = self._row(operation.path, changes)
        if operation.version not in (ANY_VERSION, row.version):
            raise VersionConflict(
                f"{operation.path} has version {row.version} in the registry, not {operation.version}"
            )
        if isinstance(operation, Put):
            changes[operation.path] = row._replace(data=operation.data, version=row.version + 1)
        elif isinstance(operation, Delete):
            self._plan_delete(operation.path, changes, below)
        else:
            assert isinstance(operation, Check)

    def apply(self, changes: Changes) -> set[str]:
        """Make the changes. Returns the paths whose watchers are notified: the nodes, and parents that gained or lost
        one.
        """
        self.last_change += 1
        touched: set[str] = set()
        for path, row in changes.items():
            parent = parent_of(path)
            if row is None:
                # A node created and deleted by one batch never existed.
                if self._rows.pop(path, None) is None:
                    continue
                self._children.pop(path)
                self._children[parent].discard(path.rpartition("/")[2])
                touched.add(parent)
            else:
                there = self._rows.get(path)
                if there is None:
                    self._children[parent].add(path.rpartition("/")[2])
                    self._children[path] = set()
                if there is None or there.created != row.created:
                    # A node deleted and created again by one batch is a new child of its parent, as in ZooKeeper.
                    touched.add(parent)
                self._rows[path] = row
            touched.add(path)
        return touched

    def _row(self, path: str, changes: Changes) -> Node:
        row = changes[path] if path in changes else self._rows.get(path)
        if row is None:
            raise NoNode(f"the registry has no node {path}")
        return row

    def _plan_create(self, operation: Create, changes: Changes, below: Below, *, session: int) -> None:
        path = operation.path
        check_path(path)
        there = changes[path] if path in changes else self._rows.get(path)
        if there is not None:
            raise NodeExists(f"the registry has a node {path} already")
        parent = self._row(parent_of(path), changes)
        if parent.owner:
            raise NoNode(f"{parent_of(path)} is ephemeral and cannot have children")
        # Popped first, so that a node deleted and created again comes after its parent in the order of changes.
        changes.pop(path, None)
        owner = session if operation.ephemeral else 0
        changes[path] = Node(operation.data, 0, self.last_change + 1, owner)
        below.setdefault(parent_of(path), []).append(path)

    def _plan_delete(self, path: str, changes: Changes, below: Below) -> None:
        prefix = path + "/"
        is_empty = all(
            changes.get(child, _UNCHANGED) is None
            for child in (*(prefix + name for name in self._children.get(path, ())), *below.get(path, ()))
        )
        if not is_empty:
            raise NodeNotEmpty(f"{path} has children in the registry and cannot be deleted")
        changes.pop(path, None)
        changes[path] = None


class TreeStore:
    """The common part of the stores with a `NodeTree`: the operations on nodes, and the watches.

    A subclass defines how a read reaches the tree (`_read`) and how operations change it (`_write`). `store.Store`
    describes the methods.
    """

    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree
        self.watches = NodeWatches()
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
