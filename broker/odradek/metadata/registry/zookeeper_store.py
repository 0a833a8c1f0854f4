"""The registry in ZooKeeper, through kazoo: for clusters.

Reads and writes are one request each, answered in their order. A read may be older than other sessions' writes, but
never older than this session's earlier reads; `sync` catches up. The store outlives its sessions: `reopen` starts the
next one, and watches continue.

Everything is below the chroot of the connect string, which the store creates if missing. With `zookeeper.set.acl` nodes
belong to the digest user from their creation. Nodes that were made without it are open until `protect`.

This module imports kazoo, which takes about 80 ms: import it only where ZooKeeper is used (`registries` does so).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import SettingError
from odradek.foundation.limits import (
    OPEN_NODES_NAMED_MAX,
    REGISTRY_READS_PER_REQUEST_MAX,
    REGISTRY_WRITE_BYTES_MAX,
)
from odradek.foundation.registry_errors import NodeExists, StoreConnectionLost, StoreSessionExpired
from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.registry.node_tree import check_path
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
    check_size,
)
from odradek.metadata.registry.zookeeper import security
from odradek.metadata.registry.zookeeper.address import Ensemble, parse_ensemble
from odradek.metadata.registry.zookeeper.failures import batch_error
from odradek.metadata.registry.zookeeper.lasting_watches import LastingWatches
from odradek.metadata.registry.zookeeper.multi_read import MultiRead, nodes_read
from odradek.metadata.registry.zookeeper.protection import NodeProtection, OpenNode
from odradek.metadata.registry.zookeeper.session import ZooKeeperSession

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat
    from kazoo.security import ACL

    from odradek.metadata.registry.zookeeper.handler import Kazoo

logger = logging.getLogger(__name__)

# The pause before another session, after one that ended before it was used.
_BEGIN_RETRY_SECONDS: Final = 0.1


class ZookeeperStore:
    """The registry below one node of a ZooKeeper ensemble. Create it with `open`."""

    write_bytes_max: Final = REGISTRY_WRITE_BYTES_MAX

    def __init__(self, settings: ZookeeperSettings, ensemble: Ensemble, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._ensemble = ensemble
        self._tls = tls
        self._access = security.build_owned_acl if settings.zookeeper_set_acl else security.open_to_all
        self._protection = NodeProtection(self, security.own_ids(settings))
        # Those whose nodes were all checked: what is made later is protected from the start.
        self._checked_branches: set[tuple[str, ...]] = set()
        self._is_root_said = False
        self._in_flight = asyncio.Semaphore(settings.zookeeper_max_in_flight_requests)
        self._watches = LastingWatches(root=ensemble.chroot)
        self._listeners = SessionListeners()
        self._listeners.state = SessionState.EXPIRED
        self._reopening = asyncio.Lock()
        self._tasks = TaskOwner("zookeeper-store")
        self._session: ZooKeeperSession | None = None
        self.session_id = 0
        self._has_chroot = False

    @classmethod
    async def open(cls, settings: ZookeeperSettings, *, makes_chroot: bool = True) -> ZookeeperStore:
        """Connect, within zookeeper.connection.timeout.ms.

        Raises StoreConnectionLost when no server answers in time, and StoreAccessDenied for wrong credentials. Raises
        SettingError for a connect string or TLS files that cannot be used, DependencyError for SASL without pure-sasl.
        """
        if settings.zookeeper_connect is None:
            raise SettingError(
                "zookeeper.connect is missing; give ZooKeeper's addresses, as zk1:2181,zk2:2181/odradek"
            )
        tls = security.tls_context(settings)
        store = cls(settings, parse_ensemble(settings.zookeeper_connect), tls)
        store._has_chroot = not makes_chroot
        try:
            await store.reopen()
        except BaseException:
            await store.close()
            raise
        return store

    # --- nodes ---------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        data, stat = await self._ask(path, "get_async", self._full(path))
        return Node(data, stat.version, stat.czxid, stat.ephemeralOwner)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for start in range(0, len(paths), REGISTRY_READS_PER_REQUEST_MAX):
            some = paths[start : start + REGISTRY_READS_PER_REQUEST_MAX]
            request = MultiRead([self._full(path) for path in some])
            async with self._in_flight:
                session = self._session_now()
                results = await session.send(some[0], partial(request.start, session.client))
            nodes += nodes_read(results, some)
        if not paths:
            self._session_now()
        return nodes

    async def exists(self, path: str) -> bool:
        return await self._ask(path, "exists_async", self._full(path)) is not None

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._ask(path, "get_children_async", self._full(path))
        return sorted(names)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> int:
        full = self._full(path)
        check_size([Create(path, data)], self.write_bytes_max)
        _, stat = await self._ask(
            path,
            "create_async",
            *(full, data),
            acl=self._access(path),
            ephemeral=ephemeral,
            include_data=True,
        )
        created: int = stat.czxid
        return created

    async def put(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        check_size([Put(path, data)], self.write_bytes_max)
        stat = await self._ask(path, "set_async", self._full(path), data, version)
        new_version: int = stat.version
        return new_version

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._ask(path, "delete_async", self._full(path), version)

    async def multi(self, operations: Sequence[Operation]) -> None:
        check_size(operations, self.write_bytes_max)
        if not operations:
            self._session_now()
            return
        paths = [self._full(operation.path) for operation in operations]

        def start(session: ZooKeeperSession) -> asyncio.Future[Kazoo]:
            transaction = session.client.transaction()
            for operation, full in zip(operations, paths, strict=True):
                if isinstance(operation, Create):
                    access = self._access(operation.path)
                    transaction.create(full, operation.data, acl=access, ephemeral=operation.ephemeral)
                elif isinstance(operation, Put):
                    transaction.set_data(full, operation.data, operation.version)
                elif isinstance(operation, Delete):
                    transaction.delete(full, operation.version)
                else:
                    assert isinstance(operation, Check)
                    transaction.check(full, operation.version)
            return session.send(operations[0].path, transaction.commit_async)

        async with self._in_flight:
            results = await start(self._session_now())
        error = batch_error(results, operations)
        if error is not None:
            raise error

    async def sync(self) -> None:
        await self._ask("/", "sync_async", self._full("/"))

    async def protect(self, paths: Sequence[str], *, with_children: bool = False) -> list[str]:
        wanted = tuple(paths)
        if not self._settings.zookeeper_set_acl or (with_children and wanted in self._checked_branches):
            return []
        if "/" in paths and not self._ensemble.chroot:
            await self._warn_of_open_root()
        opened = foreign = 0
        named: list[str] = []
        not_ours: list[str] = []
        async for found in self.open_nodes(paths, with_children=with_children):
            if not found.is_foreign:
                found = await self._protection.protect(found.path) or found
            if found.is_foreign:
                foreign += 1
                not_ours += [found.path] if len(not_ours) < max(len(wanted), OPEN_NODES_NAMED_MAX) else []
            else:
                opened += 1
                named += [found.path] if len(named) < OPEN_NODES_NAMED_MAX else []
        if opened:
            logger.warning(
                "%d nodes of ZooKeeper were open to any client, and now belong to %s (%s%s). Check what is in them, "
                "because any client could have written it",
                opened,
                self._settings.zookeeper_digest_user,
                ", ".join(named),
                ", …" if opened > len(named) else "",
            )
        if foreign:
            logger.warning(
                "%d nodes of ZooKeeper do not belong to %s (%s%s): their owner can change them. Set their access "
                "lists as their owner, or remove them",
                foreign,
                self._settings.zookeeper_digest_user,
                ", ".join(not_ours[:OPEN_NODES_NAMED_MAX]),
                ", …" if foreign > OPEN_NODES_NAMED_MAX else "",
            )
        if with_children:
            self._checked_branches.add(wanted)
        return not_ours

    async def open_root(self) -> OpenNode | None:
        """The cluster's root when it is open: its chroot, or ZooKeeper's own root, which is not the cluster's to
        change.
        """
        async for found in self._protection.find_open(["/"], with_children=False):
            return None if found.is_foreign else found
        return None

    async def _warn_of_open_root(self) -> None:
        if not self._is_root_said and await self.open_root() is not None:
            self._is_root_said = True
            logger.warning(
                "zookeeper.connect names no node of its own, and ZooKeeper's root is open: any client can make a "
                "/controller there while none is elected. Use a chroot, as zk1:2181/odradek, or protect the root"
            )

    def open_nodes(self, paths: Sequence[str], *, with_children: bool) -> AsyncIterator[OpenNode]:
        """The nodes at `paths` that others may change, or read where they hold secrets; and those below them.

        ZooKeeper's own root is left out where there is no chroot: others may use it too.
        """
        ours = [path for path in paths if path != "/" or self._ensemble.chroot]
        return self._protection.find_open(ours, with_children=with_children)

    async def access_list(self, path: str) -> tuple[Sequence[ACL], ZnodeStat]:
        entries, stat = await self._ask(path, "get_acls_async", self._full(path))
        return entries, stat

    async def set_access_list(self, path: str, entries: Sequence[ACL], *, version: int) -> None:
        await self._ask(path, "set_acls_async", self._full(path), list(entries), version)

    def watch(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        check_path(path)
        return self._watches.add(path, callback)

    async def _ask(self, path: str, method: str, *arguments: object, **keywords: object) -> Kazoo:
        async with self._in_flight:
            return await self._session_now().ask(path, method, *arguments, **keywords)

    def _full(self, path: str) -> str:
        check_path(path)
        return (self._ensemble.chroot or "/") if path == "/" else self._ensemble.chroot + path

    def _session_now(self) -> ZooKeeperSession:
        if self.session_state is SessionState.CLOSED:
            raise StoreSessionExpired("the registry is closed")
        if self._session is None:
            raise StoreSessionExpired("the session with ZooKeeper is over; open a new one")
        return self._session

    # --- the session ---------------------------------------------------------------------------------------------

    @property
    def session_state(self) -> SessionState:
        return self._listeners.state

    @property
    def session_timeout_seconds(self) -> float:
        """The requested timeout: ZooKeeper may have agreed to less or more, within its own limits."""
        return self._settings.zookeeper_session_timeout_ms / 1000

    def on_session_change(self, callback: SessionCallback) -> Callable[[], None]:
        return self._listeners.add(callback)

    async def reopen(self) -> None:
        async with self._reopening:
            if self.session_state is SessionState.CLOSED:
                raise StoreSessionExpired("the registry is closed")
            if self._session is None:
                await self._begin()

    async def _begin(self) -> None:
        """Begin a session. ZooKeeper may stop before it has answered the first requests: begin again, until
        zookeeper.connection.timeout.ms is over. None of these requests does harm if it is done twice.
        """
        settings = self._settings
        loop = asyncio.get_running_loop()
        timeout_ms = settings.zookeeper_connection_timeout_ms or settings.zookeeper_session_timeout_ms
        seconds_max = timeout_ms / 1000
        deadline = loop.time() + seconds_max
        ended: StoreConnectionLost | StoreSessionExpired | None = None
        while True:
            session = self._new_session()
            try:
                await session.open(seconds_max=seconds_max, deadline=deadline)
                await self._prepare(session)
                break
            except (StoreConnectionLost, StoreSessionExpired) as error:
                await session.close()
                # Without an id no server has answered in time, or none is trusted.
                is_begun = session.id or isinstance(error, StoreSessionExpired)
                if self.session_state is SessionState.CLOSED or not (is_begun or ended):
                    raise
                if not is_begun:
                    raise StoreConnectionLost(
                        f"{error} Before that it ended every new session ({ended})."
                    ) from error
                ended = error
                if loop.time() + _BEGIN_RETRY_SECONDS >= deadline:
                    raise StoreConnectionLost(
                        f"ZooKeeper at {self._ensemble} ended every new session for {seconds_max:g} s ({error}); "
                        "is it running, and are most of its servers?"
                    ) from error
                logger.info("ZooKeeper at %s ended a new session, another begins: %s", self._ensemble, error)
                await asyncio.sleep(_BEGIN_RETRY_SECONDS)
            except BaseException:
                await session.close()
                raise
        self._session = session
        self.session_id = session.id
        self._handle_state(session, session.state)

    def _new_session(self) -> ZooKeeperSession:
        session = ZooKeeperSession(
            self._ensemble,
            timeout_seconds=self.session_timeout_seconds,
            login=security.login(self._settings),
            tls=self._tls,
            on_change=lambda state: self._handle_state(session, state),
        )
        return session

    async def _prepare(self, session: ZooKeeperSession) -> None:
        # The server may be older than earlier sessions' reads from another server.
        await session.ask("/", "sync_async", "/")
        if not self._has_chroot:
            await self._make_chroot(session)
            self._has_chroot = True
        if self.session_state is SessionState.CLOSED:
            raise StoreSessionExpired("the registry is closed")

    async def _make_chroot(self, session: ZooKeeperSession) -> None:
        steps = self._ensemble.chroot.split("/")[1:]
        for count in range(1, len(steps) + 1):
            path = "/" + "/".join(steps[:count])
            # Checked first: a user who may not create nodes there may still use the existing one.
            if await session.ask(path, "exists_async", path) is None:
                with contextlib.suppress(NodeExists):
                    # The steps to the root, whatever their names are: a chroot may be called /consumers.
                    await session.ask(path, "create_async", path, acl=self._access("/"))

    def _handle_state(self, session: ZooKeeperSession, state: SessionState) -> None:
        """Handle a session that is connected, suspended or expired. One that is being opened is not used yet."""
        if session is not self._session:
            return
        if state is SessionState.EXPIRED:
            logger.warning(
                "the session %#x with ZooKeeper has expired: its ephemeral nodes are gone", session.id
            )
            self._session = None
            self._tasks.start(session.close(), name="farewell")
        elif state is SessionState.SUSPENDED:
            logger.warning(
                "ZooKeeper at %s does not answer; session %#x is suspended", self._ensemble, session.id
            )
        self._listeners.change(state)
        if state is SessionState.CONNECTED:
            self._watches.handle_connect(session)

    async def close(self) -> None:
        if self.session_state is SessionState.CLOSED:
            return
        session, self._session = self._session, None
        self._watches.clear()
        self._listeners.change(SessionState.CLOSED)
        if session is not None:
            await session.close()
        await self._tasks.close()
