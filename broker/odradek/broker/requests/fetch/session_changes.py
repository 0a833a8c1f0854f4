"""Which partitions of a follower's fetch session changed since its last answer: a fetch looks at no others.

A session names all partitions that a follower fetches from this broker, and few of them change between two answers.
Each of its targets is `unchanged` or among the `changed`. Every fetch reads the changed ones, in their order. One of
them is marked unchanged once neither its answer nor its fetch offset would say anything new.

An unchanged target listens to its partition. Each of these makes it one of the changed again: records, another role, a
log that starts later, another in-sync set. A fetch that waits registers with the session and with the changed targets,
so its cost depends on their number too.

A follower with unchanged targets shows by each fetch that it is caught up with them. All of them share the time of the
session's last fetch (`broker.replication.in_sync_rules.LastRequest`).

What it leaves out: when a target is unchanged, which the reader of the targets decides (`followers`).
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.replication.in_sync_rules import FollowerState, LastRequest
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.purgatory import WaitingFetch, Watch
from odradek.broker.requests.fetch.reading import FetchTarget


class SessionChanges:
    """Of one session. Each of the session's targets is in `changed` or in `unchanged`."""

    __slots__ = ("broker_id", "changed", "last_request", "unchanged", "watch")

    def __init__(self, broker_id: int, targets: Iterable[FetchTarget]) -> None:
        """`broker_id` is the follower that fetches."""
        self.broker_id = broker_id
        self.last_request = LastRequest()
        self.changed: dict[FetchTarget, None] = dict.fromkeys(targets)
        self.unchanged: dict[FetchTarget, _UnchangedTarget] = {}
        self.watch = Watch()
        """Fetches of the session that wait for unchanged targets."""

    def fetch_changed(self, target: FetchTarget) -> None:
        """The follower fetches `target` from another offset, or for the first time."""
        unchanged = self.unchanged.get(target)
        if unchanged is None:
            self.changed[target] = None
        else:
            unchanged.state_changed()

    def mark_unchanged(self, target: FetchTarget, partition: Partition, follower: FollowerState) -> None:
        """Leave one of the changed out until something happens at its partition."""
        del self.changed[target]
        unchanged = self.unchanged[target] = _UnchangedTarget(self, target, partition, follower)
        partition.replica.log_end_watch.waiting[unchanged] = None
        follower.park(self.last_request)

    def move_to_end(self, target: FetchTarget) -> None:
        """Put `target` behind the others among the changed."""
        if target in self.changed:
            del self.changed[target]
            self.changed[target] = None

    def forget(self, target: FetchTarget) -> None:
        """Drop a target that the session no longer has."""
        unchanged = self.unchanged.get(target)
        if unchanged is not None:
            unchanged.state_changed()
        self.changed.pop(target, None)

    def close(self) -> None:
        """Stop listening: the session is over."""
        for unchanged in list(self.unchanged.values()):
            unchanged.state_changed()
        self.changed.clear()


class _UnchangedTarget:
    """Listens to the partition of an unchanged target. Each of its methods makes the target changed."""

    __slots__ = ("_changes", "_follower", "_partition", "_target")

    def __init__(
        self, changes: SessionChanges, target: FetchTarget, partition: Partition, follower: FollowerState
    ) -> None:
        self._changes = changes
        self._target = target
        self._partition = partition
        self._follower = follower

    def state_changed(self) -> None:
        """Something changed that can wait for the session's next fetch."""
        changes = self._changes
        del self._partition.replica.log_end_watch.waiting[self]
        del changes.unchanged[self._target]
        changes.changed[self._target] = None
        self._follower.activate(changes.last_request)
        # A fetch that waits now watches this replica itself: the next record must wake it.
        for fetch in changes.watch.waiting:
            if isinstance(fetch, WaitingFetch):
                fetch.watch_also(self._partition.replica.log_end_watch)

    def became_readable(self, size_bytes: int) -> None:
        self.state_changed()
        for fetch in tuple(self._changes.watch.waiting):
            fetch.became_readable(size_bytes)

    def wake(self) -> None:
        self.state_changed()
        for fetch in tuple(self._changes.watch.waiting):
            fetch.wake()
