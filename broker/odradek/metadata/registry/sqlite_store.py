"""The registry in one SQLite file: for a single node, and for one process only.

All nodes are also in memory, so that reads cost nothing. A write is checked there, written and synced by the one
writer thread, and only then visible. Writes run one after the other, so no other write comes between a check and its
write. SQLite opens the file in exclusive mode: a second process is refused. Ephemeral nodes are never written: they end
with the process.

The start is synchronous (`SqliteStore.open`): it precedes all serving, and a thread would only delay it.

Layout 3 (`PRAGMA user_version`):
  node(path TEXT PRIMARY KEY, data BLOB, version INTEGER, created INTEGER)
  opening(number INTEGER, seal TEXT)     one row; `seal` is the checksum of all nodes (`RegistryChecksum`)
`open` upgrades layout 1, which lacks `created` and `opening`, and layout 2, which lacks `seal`. It refuses a file whose
nodes do not match the checksum, and leaves that file as it is.

Some changes must succeed on a full disk: a start, so that records can be read, and the deletion of a topic, which
frees space. Other writers take any space that is freed, so the space stays in SQLite's files. `open` writes a blob and
deletes it: the write-ahead log then has blocks to write over, and the file has free pages. Where the write-ahead log
is full, a checkpoint restarts it. SQLite deletes the write-ahead log when it closes the file, so a file beside it,
`.reserve`, holds the space between two runs.

Changes are numbered from opening << 32 on, and the opening's number is written with its first change. So numbers
rise across restarts without a write of their own.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.private_files import narrow, open_private
from odradek.foundation.registry_errors import StoreError, StoreSessionExpired, StoreWriteFailed
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX, REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.metadata.registry.node_tree import Answer, Changes, NodeTree, TreeStore
from odradek.metadata.registry.store import (
    Node,
    Operation,
    SessionState,
)

logger = logging.getLogger(__name__)

# The range of SQLite's signed integers.
_MASK: Final = (1 << 63) - 1

_LAYOUT_VERSION: Final = 3
# The only session is that of this process.
_SESSION: Final = 1
_OPENING_BITS: Final = 32
# Space for the write-ahead pages of a start, of deleted topics and of a topic with some hundred partitions.
_RESERVE_BYTES: Final = 256 * 1024
# Creating and deleting the first blob writes each page twice ahead, and fits into the reserve. The others are for less
# space.
_BLOB_BYTES: Final = (112 * 1024, 56 * 1024, 16 * 1024)
_PAGE_BYTES: Final = 4096
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(RESTART)"
_RESERVE_SUFFIX: Final = ".reserve"
# Of SQLite.
_COMPANIONS: Final = ("-wal", "-shm", "-journal")


class SqliteStore(TreeStore):
    """The registry of one process, connected until it is closed. Make it with `open`."""

    session_id: Final = _SESSION
    write_bytes_max: Final = None
    session_timeout_seconds: Final = None

    def __init__(
        self, connection: sqlite3.Connection, tree: NodeTree, checksum: RegistryChecksum, *, path: str
    ) -> None:
        super().__init__(tree)
        self._connection = connection
        self._path = path
        self._checksum = checksum
        self._lock = asyncio.Lock()
        self._writer: ThreadPoolExecutor | None = None
        # Whether the file has the number of this opening.
        self._is_noted = False
        self._is_applying = False
        self._writes: set[asyncio.Task[Changes]] = set()

    @classmethod
    def open(cls, path: str) -> SqliteStore:
        """Open or create the file at `path`. Raises StoreError when it is in use, not a registry, or cannot be read."""
        _make_private(path)
        try:
            # Used by the writer thread after this thread has set it up; never by two at once.
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open the registry {path}: {error}; is the directory there?") from error
        try:
            tree, checksum = _load(connection, path)
            _reserve_room(connection, path + _RESERVE_SUFFIX)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            connection.close()
            raise StoreError(_open_failure(path, error)) from error
        except StoreError:
            connection.close()
            raise
        return cls(connection, tree, checksum, path=path)

    async def _read(self, work: Callable[[], Answer]) -> Answer:
        self._check_open()
        if self._is_applying:
            # A change is visible as a whole.
            async with self._lock:
                return work()
        return work()

    async def _write(self, operations: Sequence[Operation]) -> Changes:
        # A separate task, shielded: a caller may be cancelled while the thread writes. The next writer must still wait,
        # and memory must still get the write.
        task = asyncio.get_running_loop().create_task(self._multi(operations), name="registry-write")
        self._writes.add(task)
        task.add_done_callback(self._end_write)
        return await asyncio.shield(task)

    def _end_write(self, task: asyncio.Task[Changes]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and isinstance(task.exception(), StoreError):
            logger.debug("the registry refused a write: %s", task.exception())

    async def _multi(self, operations: Sequence[Operation]) -> Changes:
        async with self._lock:
            self._check_open()
            if len(operations) > REQUEST_ELEMENTS_PER_TURN_MAX:
                # Nothing else changes the tree until then.
                plan = await asyncio.get_running_loop().run_in_executor(
                    self._get_writer(), self._plan_changes, operations
                )
            else:
                plan = self._plan_changes(operations)
            changes, durable, checksum = plan
            if durable or (changes and not self._is_noted):
                try:
                    await asyncio.get_running_loop().run_in_executor(
                        self._get_writer(), self._write_durably, durable, checksum
                    )
                except sqlite3.Error as error:
                    raise _write_failure(self._path, error) from error
                self._checksum = checksum
                self._is_noted = True
            await self._apply(changes)
            return changes

    def _plan_changes(self, operations: Sequence[Operation]) -> tuple[Changes, Changes, RegistryChecksum]:
        """The changes of the operations, those that are written, and the checksum after them."""
        changes = self._tree.plan(operations, session=_SESSION)
        durable = {path: row for path, row in changes.items() if row is None or not row.owner}
        checksum = self._checksum
        for path, row in durable.items():
            old = self._tree.find(path)
            checksum = checksum.after(path, None if old is not None and old.owner else old, row)
        return changes, durable, checksum

    def _get_writer(self) -> ThreadPoolExecutor:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry-writer")
        return self._writer

    async def _apply(self, changes: Changes) -> None:
        """Make the changes visible, some in each turn of the loop; reads wait until all are."""
        rows = iter(changes.items())
        self._is_applying = True
        try:
            while part := dict(islice(rows, NODE_CHANGES_PER_TURN_MAX)):
                self.watches.notify(self._tree.apply(part))
                if len(part) == NODE_CHANGES_PER_TURN_MAX:
                    await asyncio.sleep(0)
        finally:
            self._is_applying = False

    async def reopen(self) -> None:
        self._check_open()

    async def close(self) -> None:
        async with self._lock:
            if self.session_state is SessionState.CLOSED:
                return
            self._listeners.change(SessionState.CLOSED)
            self.watches.clear()
            if self._writer is not None:
                self._writer.shutdown(wait=True)
            self._connection.close()
            _write_reserve_file(self._path + _RESERVE_SUFFIX)

    def _write_durably(self, changes: Changes, checksum: RegistryChecksum) -> None:
        """In the writer thread: one transaction, on disk when this returns."""
        try:
            self._transact(changes, checksum)
        except sqlite3.OperationalError as error:
            # SQLite has no code of its own for a quota or for a limit of a file's size.
            if not _is_full(error) and error.sqlite_errorcode != sqlite3.SQLITE_IOERR_WRITE:
                raise
            # The checkpoint writes the write-ahead log into existing pages of the file. The log then begins from its
            # start.
            self._connection.execute(_CHECKPOINT)
            self._transact(changes, checksum)

    def _transact(self, changes: Changes, checksum: RegistryChecksum) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "DELETE FROM node WHERE path = ?", [(path,) for path, row in changes.items() if row is None]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO node (path, data, version, created) VALUES (?, ?, ?, ?)",
                [
                    (path, row.data, row.version, row.created)
                    for path, row in changes.items()
                    if row is not None
                ],
            )
            opening = self._tree.last_change >> _OPENING_BITS
            connection.execute(
                "UPDATE opening SET number = ?, seal = ?", [opening, checksum.text(opening=opening)]
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _check_open(self) -> None:
        if self.session_state is SessionState.CLOSED:
            raise StoreSessionExpired("the registry is closed")


def _reserve_room(connection: sqlite3.Connection, reserve: str) -> None:
    """Move the space of the reserve into SQLite's files, as far as the disk still has it."""
    with suppress(FileNotFoundError):
        os.remove(reserve)
    (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    # Syncs would cost the start some milliseconds, and a power failure may undo these writes.
    connection.execute("PRAGMA synchronous = OFF")
    failure: sqlite3.OperationalError | None = None
    for blob_bytes in _BLOB_BYTES:
        try:
            connection.execute("DROP TABLE IF EXISTS room")
            connection.execute("CREATE TABLE room AS SELECT zeroblob(?) AS bytes", [blob_bytes])
            connection.execute("DROP TABLE room")
            failure = None
            break
        except sqlite3.OperationalError as error:
            failure = error
            with suppress(sqlite3.OperationalError):
                # A broker that was killed left a write-ahead log: it begins from its start.
                connection.execute(_CHECKPOINT)
    connection.execute("PRAGMA synchronous = FULL")
    if failure is None and free_pages * _PAGE_BYTES < blob_bytes:
        try:
            connection.execute(_CHECKPOINT)
        except sqlite3.OperationalError as error:
            failure = error
    if failure is not None:
        logger.warning("no space could be reserved for the registry: %s; free space on its disk", failure)


def _make_private(path: str) -> None:
    """Make the file, if it is missing, for its owner alone, and take from others what they may do with one that is
    there. SQLite gives the files beside it the same mode. Raises StoreError, also for a link.
    """
    try:
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot open the registry {path}: {reason}; is the directory there?") from error
    for one in (path, *(path + suffix for suffix in (*_COMPANIONS, _RESERVE_SUFFIX))):
        try:
            mode = narrow(one)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StoreError(f"cannot open the registry {path}: {one} is a link; remove it") from error
            logger.warning(
                "other users of this machine may read %s, which holds keys of users, and its mode cannot be changed: "
                "%s",
                one,
                error.strerror,
            )
            continue
        if mode is not None:
            logger.warning(
                "other users of this machine could use %s, which holds keys of users: its mode was %04o, and is "
                "narrower now",
                one,
                mode,
            )


def _write_reserve_file(reserve: str) -> None:
    """Reserve `_RESERVE_BYTES` while the registry is closed, or as many as the disk has."""
    try:
        descriptor = open_private(reserve, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(bytes(_RESERVE_BYTES))
    except OSError as error:
        logger.warning("the reserve %s of the registry could not be written: %s", reserve, error.strerror)


def _load(connection: sqlite3.Connection, path: str) -> tuple[NodeTree, RegistryChecksum]:
    # Exclusive before WAL: the index of the write-ahead log is then in memory, and the lock is held until close.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    (layout_version,) = connection.execute("PRAGMA user_version").fetchone()
    if layout_version > _LAYOUT_VERSION:
        raise StoreError(
            f"the registry {path} has layout {layout_version}, and this version reads layout {_LAYOUT_VERSION}; "
            "use the version of Odradek that wrote it"
        )
    if layout_version < _LAYOUT_VERSION:
        _upgrade_layout(connection, layout_version)
    openings = connection.execute("SELECT number, seal FROM opening").fetchall()
    found = connection.execute("SELECT path, data, version, created FROM node").fetchall()
    rows = [(name, Node(data, version, created)) for name, data, version, created in found]
    try:
        ((opening, text),) = openings
        checksum = RegistryChecksum.over(rows)
        is_whole = checksum.text(opening=opening) == text
    except (TypeError, ValueError, AttributeError):  # values of types that no version has written
        is_whole = False
    if not is_whole:
        raise StoreError(_describe_damage(path, "its content does not match its checksum"))
    return NodeTree(rows, last_change=(opening + 1) << _OPENING_BITS), checksum


def _upgrade_layout(connection: sqlite3.Connection, layout_version: int) -> None:
    """Make an empty file a registry, or upgrade an older layout: wholly or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    if layout_version == 0:
        connection.execute(
            "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, "
            "created INTEGER NOT NULL) WITHOUT ROWID"
        )
    elif layout_version == 1:
        connection.execute("ALTER TABLE node ADD COLUMN created INTEGER NOT NULL DEFAULT 0")
    if layout_version < 2:
        connection.execute("CREATE TABLE opening (number INTEGER NOT NULL)")
        connection.execute("INSERT INTO opening (number) VALUES (0)")
    (opening,) = connection.execute("SELECT number FROM opening").fetchone()
    found = connection.execute("SELECT path, data, version, created FROM node").fetchall()
    checksum = RegistryChecksum.over(
        (name, Node(data, version, created)) for name, data, version, created in found
    )
    connection.execute("ALTER TABLE opening ADD COLUMN seal TEXT NOT NULL DEFAULT ''")
    connection.execute("UPDATE opening SET seal = ?", [checksum.text(opening=opening)])
    connection.execute(f"PRAGMA user_version = {_LAYOUT_VERSION}")
    connection.execute("COMMIT")


def _describe_damage(path: str, why: str) -> str:
    return (
        f"the registry {path} is damaged: {why}. Nothing was changed. Restore a copy of it, or move it away. A broker "
        "without it finds topics, records and groups in the logs, but not the settings of topics and brokers"
    )


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def _write_failure(path: str, error: sqlite3.Error) -> StoreError:
    if _is_full(error):
        return StoreWriteFailed(
            f"the registry {path} could not be written: its disk is full. Nothing was changed. Delete topics or other "
            "files there, or enlarge the volume, and try again"
        )
    return StoreWriteFailed(f"the registry {path} could not be written: {error}. Nothing was changed")


def _open_failure(path: str, error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"the registry {path} is in use by another process; stop it, or choose another data directory"
    # A missing table or column is damage as well: the layout's number requires it.
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return _describe_damage(
            path, "it cannot be decoded" if isinstance(error, UnicodeDecodeError) else str(error)
        )
    if code == sqlite3.SQLITE_FULL:
        return (
            f"cannot open the registry {path}: its disk is full. Nothing was changed. Delete other files there, "
            "or enlarge the volume, and start again"
        )
    return f"cannot open the registry {path}: {error}; may this user write to it and to its directory?"


class RegistryChecksum(NamedTuple):
    """A checksum over all of a registry's persistent nodes, updated with each change.

    SQLite detects damage to its own structure, not to stored values: one flipped bit would make another topic id or
    another name. The checksum is written in the transaction of each change and compared when the file is opened. It is
    a sum of checksums of single nodes, so that a change reads no other node. It also detects missing nodes.
    """

    node_count: int = 0
    total: int = 0

    @classmethod
    def over(cls, nodes: Iterable[tuple[str, Node]]) -> RegistryChecksum:
        """The checksum of these nodes. Raises TypeError or AttributeError for rows whose values are of wrong types."""
        checksum = cls()
        for path, row in nodes:
            checksum = checksum.after(path, None, row)
        return checksum

    def after(self, path: str, old: Node | None, new: Node | None) -> RegistryChecksum:
        """The checksum after the node at `path` changes from `old` to `new`; None stands for no node."""
        count, total = self
        if old is not None:
            count, total = count - 1, total - _checksum(path, old)
        if new is not None:
            count, total = count + 1, total + _checksum(path, new)
        return RegistryChecksum(count, total & _MASK)

    def text(self, *, opening: int) -> str:
        """The stored text, which also covers the number of the opening."""
        return f"{self.node_count}:{self.total:x}:{zlib.crc32(b'opening %d' % opening):x}"


def _checksum(path: str, row: Node) -> int:
    name = path.encode()
    return zlib.crc32(row.data, zlib.crc32(b"%d %d %d %b" % (len(name), row.version, row.created, name)))
