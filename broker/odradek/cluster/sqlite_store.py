"""The registry in one SQLite file: for a single node, whose only process it belongs to.

All nodes are also in memory, so that reads cost nothing; a write is checked there, written and synced by the one writer
thread, and only then visible. Writes wait for each other, so a check and its write are never apart. The file is opened
in exclusive mode: a second process is refused instead of reading what may change. Ephemeral nodes are never
written: they end with the process by whatever way it ends.

The start is synchronous (`SqliteStore.open`), because it happens before anything is served and a thread would only
delay it. Layout: `node(path TEXT PRIMARY KEY, data BLOB, version INTEGER)`, `PRAGMA user_version` 1.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from odradek.cluster.node_tree import Changes, NodeTree, Row
from odradek.cluster.store import ANY_VERSION, Create, Delete, Node, Operation, Put, WatchCallback
from odradek.cluster.watches import Watches
from odradek.foundation.errors import StoreConnectionLost, StoreError, StoreSessionExpired

logger = logging.getLogger(__name__)

_LAYOUT_VERSION: Final = 1
# The only session is this process.
_SESSION: Final = 1


class SqliteStore:
    """The registry of one process. Make it with `open`."""

    def __init__(self, connection: sqlite3.Connection, tree: NodeTree) -> None:
        self._connection = connection
        self._tree = tree
        self._watches = Watches()
        self._lock = asyncio.Lock()
        self._writer: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._writes: set[asyncio.Task[None]] = set()

    @classmethod
    def open(cls, path: str) -> SqliteStore:
        """Open or make the file at `path`. Raises StoreError when it is in use, not a registry, or cannot be read."""
        try:
            # Used by the writer thread after this thread has set it up; never by two at once.
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open the registry {path}: {error}; is the directory there?") from error
        try:
            return cls(connection, _load(connection, path))
        except sqlite3.Error as error:
            connection.close()
            raise StoreError(_open_failure(path, error)) from error
        except StoreError:
            connection.close()
            raise

    async def get(self, path: str) -> Node:
        self._reach()
        return self._tree.get(path)

    async def exists(self, path: str) -> bool:
        self._reach()
        return self._tree.exists(path)

    async def children(self, path: str) -> list[str]:
        self._reach()
        return self._tree.children(path)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        await self.multi([Put(path, data, version)])
        return self._tree.get(path).version

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> None:
        # A task of its own, shielded: a caller that is cancelled while the thread writes must neither let the next
        # writer in nor leave memory behind what the disk has.
        task = asyncio.get_running_loop().create_task(self._multi(operations), name="registry-write")
        self._writes.add(task)
        task.add_done_callback(self._written)
        await asyncio.shield(task)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and isinstance(task.exception(), StoreError):
            logger.debug("the registry refused a write: %s", task.exception())

    async def _multi(self, operations: Sequence[Operation]) -> None:
        async with self._lock:
            self._reach()
            changes = self._tree.plan(operations, session=_SESSION)
            durable = {path: row for path, row in changes.items() if row is None or not row.owner}
            if durable:
                await self._write_and_apply(durable, changes)
            else:
                self._watches.notify(self._tree.apply(changes))

    async def _write_and_apply(self, durable: Changes, changes: Changes) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry-writer")
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._write, durable)
        except sqlite3.Error as error:
            raise StoreConnectionLost(f"the registry could not be written: {error}") from error
        self._watches.notify(self._tree.apply(changes))

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        return self._watches.add(path, callback)

    async def close(self) -> None:
        async with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._watches.clear()
            if self._writer is not None:
                self._writer.shutdown(wait=True)
            self._connection.close()

    def _write(self, changes: Changes) -> None:
        """In the writer thread: one transaction, on disk when this returns."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "DELETE FROM node WHERE path = ?", [(path,) for path, row in changes.items() if row is None]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO node (path, data, version) VALUES (?, ?, ?)",
                [(path, row.data, row.version) for path, row in changes.items() if row is not None],
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _reach(self) -> None:
        if self._is_closed:
            raise StoreSessionExpired("the registry is closed")


def _load(connection: sqlite3.Connection, path: str) -> NodeTree:
    # Exclusive before WAL: the index of the write-ahead log then lives in memory, and the lock is held until close.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    (layout_version,) = connection.execute("PRAGMA user_version").fetchone()
    if layout_version == 0:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        connection.execute(f"PRAGMA user_version = {_LAYOUT_VERSION}")
        connection.execute("COMMIT")
    elif layout_version != _LAYOUT_VERSION:
        raise StoreError(
            f"the registry {path} has layout {layout_version}, and this version reads layout {_LAYOUT_VERSION}; "
            "use the version of Odradek that wrote it"
        )
    rows = connection.execute("SELECT path, data, version FROM node").fetchall()
    return NodeTree((path, Row(data, version, 0)) for path, data, version in rows)


def _open_failure(path: str, error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"the registry {path} is in use by another process; stop it, or choose another data directory"
    return f"cannot read the registry {path}: {error}"
