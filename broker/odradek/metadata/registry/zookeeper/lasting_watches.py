"""Lasting watches, made from ZooKeeper's watches, which report one change each and end with the connection.

Each watched path keeps the node's last known version: when it was created, and when its bytes and its children last
changed. To arm a path is to read the node with two watches, on its bytes and on its children. Every later change is
reported. No change is lost between a watch that fired and its successor. Arming reads the node before the callbacks are
called, so they read nothing older. After a reconnection or in a new session every path is armed again, and only the
callbacks of nodes with another version are called.

Both reads are sent in the step that adds the watch. ZooKeeper answers requests in their order, so a caller that watches
first and then reads gets nothing older. While too many reads are in progress, arming waits. The callbacks are then
called in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kazoo.protocol.states import EventType

from odradek.foundation.limits import REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
from odradek.foundation.registry_errors import NoNode, StoreConnectionLost, StoreSessionExpired
from odradek.metadata.registry.store import SessionState, WatchCallback
from odradek.metadata.registry.watches import NodeWatches
from odradek.metadata.registry.zookeeper.handler import Kazoo
from odradek.metadata.registry.zookeeper.session import ZooKeeperSession

logger = logging.getLogger(__name__)


class NodeVersion(NamedTuple):
    """When a node was created and last changed, in ZooKeeper's transaction ids (zxid); all 0 where there is none."""

    made: int
    bytes_changed: int
    children_changed: int


_NO_NODE = NodeVersion(0, 0, 0)


class _WatchedPath:
    """One path that is or was watched. Kept for its `fired`: ZooKeeper's watches cannot be removed, and kazoo keeps
    the same callback only once.
    """

    __slots__ = ("arming", "fired", "fired_again", "is_armed", "must_notify", "path", "version")

    def __init__(self, path: str, fired: Callable[[_WatchedPath, Kazoo], None]) -> None:
        self.path = path
        self.fired: Callable[[Kazoo], None] = partial(fired, self)
        # None until it is armed for the first time.
        self.version: NodeVersion | None = None
        self.is_armed = False
        self.must_notify = False
        # Whether the two reads are under way, and whether a watch fired during them.
        self.arming = False
        self.fired_again = False


class LastingWatches:
    """All watches of one store, over all its sessions."""

    def __init__(self, *, root: str) -> None:
        self._root = root
        self._watches = NodeWatches()
        self._session: ZooKeeperSession | None = None
        self._watched: dict[str, _WatchedPath] = {}
        # Paths to be armed, in their order; a dict for its order and its keys.
        self._waiting: dict[str, None] = {}
        self._arming_count = 0
        # The number of connections so far: a path armed on a former one is not armed.
        self._connection = 0

    def add(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        """Watch `path`; the result removes the watch."""
        unwatch = self._watches.add(path, callback)
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = _WatchedPath(path, self._handle_event)
        if not (watched.is_armed or watched.arming):
            self._arm_or_wait(watched)
        return unwatch

    def handle_connect(self, session: ZooKeeperSession) -> None:
        """The session is connected (again), without its watches."""
        self._session = session
        self._connection += 1
        for watched in self._watched.values():
            watched.is_armed = False
            # A node that was never read may have changed since its watch was added.
            watched.must_notify = watched.must_notify or watched.version is None
            self._waiting[watched.path] = None
        self._arm_waiting()

    def clear(self) -> None:
        """The store is closed: no callback is called any more."""
        self._session = None
        self._watches.clear()
        self._watched.clear()
        self._waiting.clear()

    def _is_reachable(self) -> bool:
        return self._session is not None and self._session.state is SessionState.CONNECTED

    def _arm_or_wait(self, watched: _WatchedPath) -> None:
        if self._is_reachable() and self._arming_count < REGISTRY_WATCHES_ARMED_AT_ONCE_MAX:
            self._arm(watched)
            return
        # A read before it is armed could be older than the version that arming reads.
        watched.must_notify = watched.must_notify or watched.version is None
        self._waiting[watched.path] = None

    def _arm_waiting(self) -> None:
        while (
            self._waiting and self._is_reachable() and self._arming_count < REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
        ):
            path = next(iter(self._waiting))
            del self._waiting[path]
            watched = self._watched.get(path)
            if watched is None or watched.arming:
                continue
            if self._watches.has(path):
                self._arm(watched)
            else:
                # ZooKeeper no longer has its watches: this is another connection.
                del self._watched[path]

    def _arm(self, watched: _WatchedPath) -> None:
        session = self._session
        assert session is not None
        watched.arming = True
        watched.fired_again = False
        self._arming_count += 1
        path = self._root + watched.path if watched.path != "/" else self._root or "/"
        reads = asyncio.gather(
            session.ask(watched.path, "exists_async", path, watch=watched.fired),
            session.ask(watched.path, "get_children_async", path, watch=watched.fired, include_data=True),
            return_exceptions=True,
        )
        reads.add_done_callback(partial(self._end_arming, watched, self._connection))

    def _handle_event(self, watched: _WatchedPath, event: Kazoo) -> None:
        """A watch fired: for a change, or (without a path) with the end of its connection."""
        if event.path is None or self._watched.get(watched.path) is not watched:
            return
        watched.is_armed = False
        if not self._watches.has(watched.path):
            # The next watch starts again.
            watched.version = None
            if event.type == EventType.DELETED:
                del self._watched[watched.path]
            return
        watched.must_notify = True
        if watched.arming:
            watched.fired_again = True
        else:
            self._arm_or_wait(watched)

    def _end_arming(
        self, watched: _WatchedPath, connection: int, reads: asyncio.Future[list[object]]
    ) -> None:
        watched.arming = False
        self._arming_count -= 1
        if reads.cancelled() or self._watched.get(watched.path) is not watched:
            return
        version = self._version_read(watched, *reads.result())
        if version is not None and connection == self._connection:
            self._note_version(watched, version)
        elif self._watches.has(watched.path):
            # Armed as soon as the session is connected again.
            self._waiting[watched.path] = None
        self._arm_waiting()

    def _note_version(self, watched: _WatchedPath, version: NodeVersion) -> None:
        watched.is_armed = not watched.fired_again
        has_changed = watched.version is not None and watched.version != version
        watched.version = version
        if watched.must_notify or has_changed:
            # A watch that fired during arming is reported after the next arming.
            watched.must_notify = watched.fired_again
            self._watches.notify([watched.path])
        if watched.fired_again:
            self._arm_or_wait(watched)

    def _version_read(self, watched: _WatchedPath, stat: Kazoo, children: Kazoo) -> NodeVersion | None:
        """The version that the two reads returned, or None if they failed."""
        if stat is None:
            return _NO_NODE
        for failure in (stat, children):
            if isinstance(failure, StoreConnectionLost | StoreSessionExpired):
                return None
            # It was deleted between the two reads: the first one's watch reports that.
            if isinstance(failure, BaseException) and not isinstance(failure, NoNode):
                logger.error("%s cannot be watched: %s", watched.path, failure)
                return _NO_NODE
        children_changed = stat.pzxid if isinstance(children, NoNode) else children[1].pzxid
        return NodeVersion(stat.czxid, stat.mzxid, children_changed)
