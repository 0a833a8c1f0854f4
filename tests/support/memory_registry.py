"""The registry in memory, for tests and simulations: one shared tree, any number of sessions on it.

`sever`, `mend` and `expire` cause the faults of a real registry on purpose; `MemoryRegistry.faults` causes them at
random. `MemoryRegistry.leave` and `come_back` make the registry unreachable for all sessions.

The registry expires a session that is severed for longer than its timeout. The session sees that only when it reaches
the registry again. Until then it is suspended, as with ZooKeeper.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from odradek.foundation.registry_errors import StoreConnectionLost, StoreSessionExpired
from odradek.metadata.image.image import ClusterImage
from odradek.metadata.image.image_building import apply
from odradek.metadata.image.loading import load_nodes
from odradek.metadata.registry.node_tree import Answer, Changes, NodeTree, TreeStore
from odradek.metadata.registry.store import Delete, Operation, SessionState, Store, check_size
from tests.support.registry_faults import RegistryFaults


class MemoryRegistry:
    """The state that several sessions share: the tree, and all watches. `faults` and `write_bytes_max` may be changed
    at any time.
    """

    def __init__(self, *, faults: RegistryFaults | None = None) -> None:
        self.tree = NodeTree()
        self.faults = faults
        self.write_bytes_max: int | None = None
        self.stores: list[MemoryStore] = []
        # The numbers of the live sessions.
        self.sessions: set[int] = set()
        self.numbers = itertools.count(1)
        self.is_away = False
        # Sessions whose users ended while the registry was away, and their timeouts.
        self._abandoned: dict[int, float] = {}

    def leave(self) -> None:
        """Answer no request until `come_back`. Sessions do not expire during that time."""
        self.is_away = True
        for store in self.stores:
            store.registry_left()

    def come_back(self, *, with_sessions: bool, reconnect_seconds: Callable[[], float]) -> None:
        """Answer again. Each user reconnects after `reconnect_seconds()`. A restarted registry still has its sessions:
        each user has the session's timeout to reconnect. After a pause of its process all sessions have expired.
        """
        self.is_away = False
        loop = asyncio.get_running_loop()
        for session, timeout_seconds in self._abandoned.items():
            loop.call_later(timeout_seconds, self.end, session)
        self._abandoned.clear()
        if not with_sessions:
            for session in sorted(self.sessions):
                self.end(session)
        for store in list(self.stores):
            store.registry_is_back(reconnect_seconds())

    def abandon(self, session: int, *, timeout_seconds: float) -> None:
        """The session's user ends and cannot report it."""
        self._abandoned[session] = timeout_seconds

    def run(self, operations: Sequence[Operation], *, session: int) -> Changes:
        """Do all operations or none, and notify every session's watchers."""
        changes = self.tree.plan(operations, session=session)
        paths = self.tree.apply(changes)
        for store in self.stores:
            store.notify(paths)
        return changes

    def begin(self) -> int:
        session = next(self.numbers)
        self.sessions.add(session)
        return session

    def end(self, session: int) -> None:
        """Expire a session and delete its ephemeral nodes."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.run([Delete(path) for path in self.tree.list_owned(session)], session=session)


class MemoryStore(TreeStore):
    """One user of a registry; without `registry` it has a tree of its own. The session lasts until `expire`, or until
    it was disconnected for the timeout, if one is given.
    """

    def __init__(
        self, registry: MemoryRegistry | None = None, *, session_timeout_seconds: float | None = None
    ) -> None:
        self.registry = registry or MemoryRegistry()
        super().__init__(self.registry.tree)
        self.session_timeout_seconds = session_timeout_seconds
        self._session = self.registry.begin()
        self._is_severed = False
        # The number of connections so far: messages of a former one are lost.
        self._connection = 0
        self._last_arrival = 0.0
        self._missed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.registry.stores.append(self)
        if self.registry.is_away:
            self._listeners.state = SessionState.SUSPENDED

    # --- nodes ---------------------------------------------------------------------------------------------------

    @property
    def write_bytes_max(self) -> int | None:
        return self.registry.write_bytes_max

    async def _write(self, operations: Sequence[Operation]) -> Changes:
        if self.write_bytes_max is not None:
            check_size(operations, self.write_bytes_max)
        return await self._read(lambda: self.registry.run(operations, session=self._session))

    async def _read(self, work: Callable[[], Answer]) -> Answer:
        """Do `work` at the registry, with a request and an answer on this session's connection."""
        self._check_reachable()
        faults = self.registry.faults
        if faults is None:
            return work()
        connection = self._connection
        loop = asyncio.get_running_loop()
        if faults.loses_request():
            self._drop(faults)
            raise StoreConnectionLost("the request was lost on its way to the registry")
        await asyncio.sleep(faults.latency())
        if connection != self._connection or self._session not in self.registry.sessions:
            self._check_reachable()
            raise StoreConnectionLost("the connection to the registry ended before the request arrived")
        try:
            return work()
        finally:
            if faults.loses_answer():
                self._drop(faults)
            await asyncio.sleep(max(self._arrival(faults) - loop.time(), 0))
            if connection != self._connection:
                raise StoreConnectionLost("the connection to the registry ended before the answer arrived")

    def notify(self, paths: set[str]) -> None:
        """Called by the registry: these nodes changed."""
        watched = {path for path in paths if self.watches.has(path)}
        if not watched:
            return
        if self.session_state is not SessionState.CONNECTED or self._session not in self.registry.sessions:
            self._missed |= watched
        elif self.registry.faults is None:
            self.watches.notify(watched)
        else:
            loop = asyncio.get_running_loop()
            loop.call_at(self._arrival(self.registry.faults), self._arrived, watched, self._connection)

    def _arrived(self, paths: set[str], connection: int) -> None:
        if connection == self._connection:
            self.watches.notify(paths)
        else:
            self._missed |= paths
            self._notify_missed()

    def _arrival(self, faults: RegistryFaults) -> float:
        """The arrival time of a message that the registry sends now: after all earlier ones."""
        arrival = asyncio.get_running_loop().time() + faults.latency()
        self._last_arrival = max(arrival, self._last_arrival + 1e-6)
        return self._last_arrival

    # --- the session ---------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._session

    async def reopen(self) -> None:
        if self.registry.faults is not None:
            await asyncio.sleep(self.registry.faults.latency())
        if self.session_state is SessionState.CLOSED:
            raise StoreSessionExpired("the registry is closed")
        if self.session_state is not SessionState.EXPIRED:
            return
        if self._is_severed or self.registry.is_away:
            raise StoreConnectionLost("the registry cannot be reached")
        self._session = self.registry.begin()
        self._connection += 1
        self._listeners.change(SessionState.CONNECTED)
        self._notify_missed()

    async def close(self) -> None:
        if self.session_state is SessionState.CLOSED:
            return
        self.watches.clear()
        self._stop_timer()
        self._connection += 1
        self._listeners.change(SessionState.CLOSED)
        self.registry.stores.remove(self)
        if self.registry.is_away:
            self.registry.abandon(self._session, timeout_seconds=self.session_timeout_seconds or 0.0)
        else:
            self.registry.end(self._session)

    def expire(self) -> None:
        """Have the registry expire this session. The session sees that now, or when it is mended. An unreachable
        registry expires no session.
        """
        if self.registry.is_away:
            return
        self._stop_timer()
        self.registry.end(self._session)
        if not self._is_severed:
            self._refresh_state()

    def sever(self) -> None:
        """Disconnect the session until `mend`: its requests fail with StoreConnectionLost, and none is done."""
        self._is_severed = True
        self._connection += 1
        if self.session_state is SessionState.CONNECTED:
            self._listeners.change(SessionState.SUSPENDED)
            self._start_timer()

    def mend(self) -> None:
        self._is_severed = False
        if self.registry.is_away:
            return
        self._stop_timer()
        self._refresh_state()

    def registry_left(self) -> None:
        """The registry answers no session."""
        self._stop_timer()
        self._connection += 1
        if self.session_state is SessionState.CONNECTED:
            self._listeners.change(SessionState.SUSPENDED)

    def registry_is_back(self, reconnect_seconds: float) -> None:
        """The registry answers, and this session reconnects after so many seconds."""
        if self._session in self.registry.sessions:
            self._start_timer()
        connection = self._connection

        def reconnect() -> None:
            if connection == self._connection and not self._is_severed and not self.registry.is_away:
                self._stop_timer()
                self._refresh_state()

        asyncio.get_running_loop().call_later(reconnect_seconds, reconnect)

    def _refresh_state(self) -> None:
        """Take the session's state from the registry."""
        if self.session_state in (SessionState.CLOSED, SessionState.EXPIRED):
            return
        if self._session in self.registry.sessions:
            self._listeners.change(SessionState.CONNECTED)
            self._notify_missed()
        else:
            self._connection += 1
            self._listeners.change(SessionState.EXPIRED)

    def _drop(self, faults: RegistryFaults) -> None:
        """The connection breaks, and is restored after a while."""
        if self._is_severed:
            return
        self.sever()
        connection = self._connection

        def reconnect() -> None:
            # A session that was severed since then stays severed until `mend`.
            if connection == self._connection:
                self.mend()

        asyncio.get_running_loop().call_later(faults.reconnect(), reconnect)

    def _notify_missed(self) -> None:
        if self.session_state is SessionState.CONNECTED:
            self.watches.notify(self._missed)
            self._missed = set()

    def _start_timer(self) -> None:
        self._stop_timer()
        if self.session_timeout_seconds is not None and not self.registry.is_away:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.session_timeout_seconds, self.expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_reachable(self) -> None:
        if self.session_state is SessionState.CLOSED:
            raise StoreSessionExpired("the registry is closed")
        if self.session_state is SessionState.EXPIRED:
            raise StoreSessionExpired("the registry's session is over; open a new one")
        if self._is_severed or self.registry.is_away:
            raise StoreConnectionLost("the registry does not answer")


async def load_image(store: Store) -> ClusterImage:
    """The image of a registry's nodes."""
    return apply(ClusterImage(), await load_nodes(store))


class DyingStore(MemoryStore):
    """A session that ends after that many more writes."""

    writes_left = 10**9

    async def _write(self, operations: Sequence[Operation]) -> Changes:
        if self.writes_left == 0:
            self.sever()
        self.writes_left -= 1
        return await super()._write(operations)
