"""Lasting watches out of ZooKeeper's, which tell one change each and end with the connection.

For each path watched there is a *sight*: what was last seen of the node (when it was made, when its bytes and when its
children last changed). Arming a sight reads the node with two watches, on its bytes and on its children; whatever
changes from then on is told. Between a watch that fired and its successor nothing is lost, because arming reads, and
the callbacks are called after that: what they read is at least as new, and later changes are told again. After a
reconnection or in a new session every sight is armed anew, and only those are told whose node looks different.

Both reads are sent in the step that asks for the watch, so that a caller that watches first and then reads gets, in
ZooKeeper's order of requests, nothing older. Where too many are under way already, arming waits and is then told as a
change, needed or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kazoo.protocol.states import EventType

from odradek.cluster.store import SessionState, WatchCallback
from odradek.cluster.watches import Watches
from odradek.cluster.zookeeper.session import Session
from odradek.foundation.errors import NoNode, StoreConnectionLost, StoreSessionExpired
from odradek.foundation.limits import REGISTRY_WATCHES_ARMED_AT_ONCE_MAX

logger = logging.getLogger(__name__)


class Look(NamedTuple):
    """When, in ZooKeeper's numbers of changes, a node was made and last changed; all 0 where there is none."""

    made: int
    bytes_changed: int
    children_changed: int


_NOTHING = Look(0, 0, 0)


class _Sight:
    """One path that is or was watched. Kept for its `fired`: ZooKeeper's watches cannot be taken back, and kazoo keeps
    the same callback only once.
    """

    __slots__ = ("arming", "fired", "fired_again", "is_armed", "look", "must_tell", "path")

    def __init__(self, path: str, fired: Callable[[_Sight, Any], None]) -> None:
        self.path = path
        self.fired: Callable[[Any], None] = partial(fired, self)
        # None until it was armed for the first time.
        self.look: Look | None = None
        self.is_armed = False
        self.must_tell = False
        # Two reads are under way; and a watch fired meanwhile.
        self.arming = False
        self.fired_again = False


class LastingWatches:
    """All watches of one store, over all its sessions."""

    def __init__(self, *, root: str) -> None:
        self._root = root
        self._watches = Watches()
        self._session: Session | None = None
        self._sights: dict[str, _Sight] = {}
        # Those to be armed, in order; a dict for its order and its keys.
        self._waiting: dict[str, None] = {}
        self._arming_count = 0
        # Counts the connections: what was armed on a former one is not armed.
        self._connection = 0

    def add(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        """Watch `path`; the result takes the watch back."""
        unwatch = self._watches.add(path, callback)
        sight = self._sights.get(path)
        if sight is None:
            sight = self._sights[path] = _Sight(path, self._fired)
        if not (sight.is_armed or sight.arming):
            self._arm_or_wait(sight)
        return unwatch

    def connected(self, session: Session) -> None:
        """The session is there (again): its watches are not."""
        self._session = session
        self._connection += 1
        for sight in self._sights.values():
            sight.is_armed = False
            # What was never seen may have changed since somebody asked to be told.
            sight.must_tell = sight.must_tell or sight.look is None
            self._waiting[sight.path] = None
        self._arm_waiting()

    def clear(self) -> None:
        """The store is closed: nothing more is told."""
        self._session = None
        self._watches.clear()
        self._sights.clear()
        self._waiting.clear()

    def _is_reachable(self) -> bool:
        return self._session is not None and self._session.state is SessionState.CONNECTED

    def _arm_or_wait(self, sight: _Sight) -> None:
        if self._is_reachable() and self._arming_count < REGISTRY_WATCHES_ARMED_AT_ONCE_MAX:
            self._arm(sight)
            return
        # What is read before it is armed could be older than what arming sees.
        sight.must_tell = sight.must_tell or sight.look is None
        self._waiting[sight.path] = None

    def _arm_waiting(self) -> None:
        while (
            self._waiting and self._is_reachable() and self._arming_count < REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
        ):
            path = next(iter(self._waiting))
            del self._waiting[path]
            sight = self._sights.get(path)
            if sight is None or sight.arming:
                continue
            if self._watches.has(path):
                self._arm(sight)
            else:
                # Nothing of it is left in ZooKeeper: the connection is another.
                del self._sights[path]

    def _arm(self, sight: _Sight) -> None:
        session = self._session
        assert session is not None
        sight.arming = True
        sight.fired_again = False
        self._arming_count += 1
        path = self._root + sight.path if sight.path != "/" else self._root or "/"
        reads = asyncio.gather(
            session.ask(sight.path, "exists_async", path, watch=sight.fired),
            session.ask(sight.path, "get_children_async", path, watch=sight.fired, include_data=True),
            return_exceptions=True,
        )
        reads.add_done_callback(partial(self._armed, sight, self._connection))

    def _fired(self, sight: _Sight, event: Any) -> None:
        """A watch fired: for a change, or (without a path) with the end of its connection."""
        if event.path is None or self._sights.get(sight.path) is not sight:
            return
        sight.is_armed = False
        if not self._watches.has(sight.path):
            # Whoever watches next begins anew.
            sight.look = None
            if event.type == EventType.DELETED:
                del self._sights[sight.path]
            return
        sight.must_tell = True
        if sight.arming:
            sight.fired_again = True
        else:
            self._arm_or_wait(sight)

    def _armed(self, sight: _Sight, connection: int, reads: asyncio.Future[list[Any]]) -> None:
        sight.arming = False
        self._arming_count -= 1
        if reads.cancelled() or self._sights.get(sight.path) is not sight:
            return
        look = self._look(sight, *reads.result())
        if look is not None and connection == self._connection:
            self._seen(sight, look)
        elif self._watches.has(sight.path):
            # Armed as soon as the session is there again.
            self._waiting[sight.path] = None
        self._arm_waiting()

    def _seen(self, sight: _Sight, look: Look) -> None:
        sight.is_armed = not sight.fired_again
        has_changed = sight.look is not None and sight.look != look
        sight.look = look
        if sight.must_tell or has_changed:
            # What fired while it was being armed is told after the next time.
            sight.must_tell = sight.fired_again
            self._watches.notify([sight.path])
        if sight.fired_again:
            self._arm_or_wait(sight)

    def _look(self, sight: _Sight, stat: Any, children: Any) -> Look | None:
        """What the two reads saw, or None when they did not come through."""
        if stat is None:
            return _NOTHING
        for failure in (stat, children):
            if isinstance(failure, StoreConnectionLost | StoreSessionExpired):
                return None
            # It was deleted between the two reads: the first one's watch tells.
            if isinstance(failure, BaseException) and not isinstance(failure, NoNode):
                logger.error("%s cannot be watched: %s", sight.path, failure)
                return _NOTHING
        children_changed = stat.pzxid if isinstance(children, NoNode) else children[1].pzxid
        return Look(stat.czxid, stat.mzxid, children_changed)
