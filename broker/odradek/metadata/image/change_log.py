"""The registry's changes as the active controller sends them to brokers: numbered, the newest kept in memory.

A broker reports the number up to which it has applied them. It receives the changes after that, or everything (a
snapshot) when they are of another term or no longer kept. So there is no queue for each broker, and a slow one costs
nothing. The bytes are the registry's own: `image_building` builds the image from them, on both sides alike.

What it leaves out: sending, waiting (`subscribe` wakes waiting requests), and the write to the registry, which comes
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from odradek.foundation.limits import CLUSTER_CHANGES_KEPT_MAX, CLUSTER_CHANGES_PER_ANSWER_MAX
from odradek.foundation.named_tuple import NamedTuple


class NodeChange(NamedTuple):
    """A changed node of the registry: its present bytes and version. It is deleted when `data` is None."""

    path: str
    data: bytes | None
    version: int = 0


class Changes(NamedTuple):
    """The changes for a broker. With `is_snapshot` the broker discards its nodes: `changes` are all nodes. After them
    it has number `next_number` of the term `controller_epoch`. `is_complete` is False when more changes follow.
    """

    controller_epoch: int
    next_number: int
    is_snapshot: bool
    is_complete: bool
    changes: tuple[NodeChange, ...]


class ChangeLog:
    """The changes of one controller's term, numbered from 0. They follow the nodes that the term began with."""

    def __init__(
        self,
        controller_epoch: int,
        nodes: Iterable[NodeChange] = (),
        *,
        kept_max: int = CLUSTER_CHANGES_KEPT_MAX,
        per_answer_max: int = CLUSTER_CHANGES_PER_ANSWER_MAX,
    ) -> None:
        self.controller_epoch = controller_epoch
        self._nodes = {node.path: node for node in nodes}
        self._kept: deque[NodeChange] = deque(maxlen=kept_max)
        # The number that the next change will have: a broker that has received this number has every change.
        self.next_number = 0
        self._per_answer_max = per_answer_max
        self._callbacks: dict[Callable[[], None], None] = {}

    @property
    def first_kept(self) -> int:
        """The lowest number from which a follower can continue without a snapshot."""
        return self.next_number - len(self._kept)

    def __iter__(self) -> Iterator[NodeChange]:
        return iter(self._nodes.values())

    def append(self, changes: Iterable[NodeChange]) -> None:
        """Add changes that the registry has written, in its order, and wake the waiting requests."""
        for change in changes:
            if change.data is None:
                self._nodes.pop(change.path, None)
            else:
                self._nodes[change.path] = change
            self._kept.append(change)
            self.next_number += 1
        for callback in tuple(self._callbacks):
            callback()

    def since(self, controller_epoch: int, number: int) -> Changes:
        """The changes that a follower lacks which has applied everything below `number` of that term.

        An unknown number also gets a snapshot. A snapshot is never split. The changes after `number` are, to bound the
        size of a frame.
        """
        if controller_epoch != self.controller_epoch or not self.first_kept <= number <= self.next_number:
            return Changes(self.controller_epoch, self.next_number, True, True, tuple(self._nodes.values()))
        start = number - self.first_kept
        changes = tuple(islice(self._kept, start, start + self._per_answer_max))
        next_number = number + len(changes)
        return Changes(self.controller_epoch, next_number, False, next_number == self.next_number, changes)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback()` after each `append`; the result ends it."""
        self._callbacks[callback] = None
        return lambda: self._callbacks.pop(callback, None)
