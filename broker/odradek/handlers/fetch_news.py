"""Which partitions of a follower's fetch session there may be something to tell of: the others are not looked at.

A session asks for all that a follower takes from here, though little of it has changed since the last answer. Each of
its targets is either settled, which means that looking at it again would tell nothing and teach nothing, or among the
changed, which every fetch looks at in their order. Looking finds out what is settled; a settled target listens at its
partition, and whatever happens there (records, another role, a log that starts later, another in-sync set) makes it
one of the changed again. A fetch that waits registers with the session and with those that are changed, so that it
costs by their number too.

That a follower with settled targets asks at all shows that it is caught up with them: all of them share the time of the
session's last question (`replication.leader.Asked`).

What it leaves out: when a target is settled, which is for whoever reads them to say (`fetch_followers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.replication.leader import Asked, Follower
from odradek.replication.partition import Partition
from odradek.replication.purgatory import WaitingFetch, Watch

if TYPE_CHECKING:
    from odradek.handlers.fetch_sessions import Target


class SessionNews:
    """Of one session. Each of the session's targets is in `changed` or in `settled`."""

    __slots__ = ("asked", "broker_id", "changed", "settled", "watch")

    def __init__(self, broker_id: int, targets: Iterable[Target]) -> None:
        """`broker_id` is the follower who asks."""
        self.broker_id = broker_id
        self.asked = Asked()
        self.changed: dict[Target, None] = dict.fromkeys(targets)
        self.settled: dict[Target, _Settled] = {}
        self.watch = Watch()
        """Fetches of the session that wait for what is settled."""

    def named(self, target: Target) -> None:
        """The follower asks for `target` from another place, or for the first time."""
        settled = self.settled.get(target)
        if settled is None:
            self.changed[target] = None
        else:
            settled.noted()

    def settle(self, target: Target, partition: Partition, follower: Follower) -> None:
        """There is nothing to tell of one of the changed until something happens at its partition."""
        del self.changed[target]
        settled = self.settled[target] = _Settled(self, target, partition, follower)
        partition.log_end_watch.waiting[settled] = None
        follower.rest(self.asked)

    def to_the_end(self, target: Target) -> None:
        """The others among the changed come first next time."""
        if target in self.changed:
            del self.changed[target]
            self.changed[target] = None

    def forget(self, target: Target) -> None:
        """The session does not have it any more."""
        settled = self.settled.get(target)
        if settled is not None:
            settled.noted()
        self.changed.pop(target, None)

    def close(self) -> None:
        """Listen to nothing any more: the session is over."""
        for settled in list(self.settled.values()):
            settled.noted()
        self.changed.clear()


class _Settled:
    """A settled target's ear at its partition; each of its methods unsettles the target."""

    __slots__ = ("_follower", "_news", "_partition", "_target")

    def __init__(self, news: SessionNews, target: Target, partition: Partition, follower: Follower) -> None:
        self._news = news
        self._target = target
        self._partition = partition
        self._follower = follower

    def noted(self) -> None:
        """The session's next fetch is soon enough."""
        news = self._news
        del self._partition.log_end_watch.waiting[self]
        del news.settled[self._target]
        news.changed[self._target] = None
        self._follower.stir(news.asked)
        # From here on a fetch that waits listens for itself: the next record has to wake it.
        for fetch in news.watch.waiting:
            if isinstance(fetch, WaitingFetch):
                fetch.watch_also(self._partition.log_end_watch)

    def advanced(self, size_bytes: int) -> None:
        self.noted()
        for fetch in tuple(self._news.watch.waiting):
            fetch.advanced(size_bytes)

    def disturbed(self) -> None:
        self.noted()
        for fetch in tuple(self._news.watch.waiting):
            fetch.disturbed()
