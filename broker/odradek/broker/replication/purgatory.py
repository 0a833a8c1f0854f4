"""Fetches that wait until enough bytes are there or their time is over, without polling.

A waiting fetch registers with its partitions. An append reports how many bytes became readable. The append that
fills its minimum schedules the answer for the event loop's next turn. So a burst of appends read from one socket costs
one answer. A timer ends each wait. Nothing runs while nothing happens: an idle consumer costs memory only.

What it leaves out: what is read and how it is answered; that is the fetch handler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol


class PartitionListener(Protocol):
    """One that a partition notifies of its changes; above all a fetch that waits."""

    def became_readable(self, size_bytes: int) -> None:
        """`size_bytes` more can be read."""
        ...

    def wake(self) -> None:
        """Answer at once: something changed that a reader has to learn now."""
        ...

    def state_changed(self) -> None:
        """Something changed that a reader may learn with its next fetch."""
        ...


class Watched(Protocol):
    """A partition, with which a waiting fetch registers."""

    waiting: dict[PartitionListener, None]


class Watch:
    """One event of a partition that fetches wait for."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[PartitionListener, None] = {}


class WaitingFetch:
    """One fetch in the purgatory. `on_ready` is called once, on the loop, unless it is cancelled first."""

    __slots__ = ("_bytes_missing", "_loop", "_on_ready", "_purgatory", "_scheduled", "_timer", "_watched")

    def __init__(
        self,
        purgatory: Purgatory,
        loop: asyncio.AbstractEventLoop,
        watched: Sequence[Watched],
        *,
        bytes_missing: int,
        wait_seconds: float,
        on_ready: Callable[[], None],
    ) -> None:
        self._purgatory = purgatory
        self._loop = loop
        self._watched = list(watched)
        self._bytes_missing = bytes_missing
        self._on_ready: Callable[[], None] | None = on_ready
        self._scheduled = False
        for place in self._watched:
            place.waiting[self] = None
        self._timer = loop.call_later(wait_seconds, self._complete)

    def became_readable(self, size_bytes: int) -> None:
        """`size_bytes` more can be read from one of its partitions."""
        self._bytes_missing -= size_bytes
        if self._bytes_missing <= 0:
            self.wake()

    def wake(self) -> None:
        """Answer at once: there are enough bytes, a new leader, or the partition is gone."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._complete)

    def state_changed(self) -> None:
        """Nothing that it waits for."""

    def watch_also(self, place: Watched) -> None:
        """Wait for `place` too, unless the fetch is about to be answered."""
        if self._on_ready is not None and not self._scheduled and self not in place.waiting:
            place.waiting[self] = None
            self._watched.append(place)

    def cancel(self) -> None:
        """Forget the fetch: its connection is gone. Harmless twice, or after the fetch was answered."""
        self._release()

    def _complete(self) -> None:
        on_ready = self._on_ready
        self._release()
        if on_ready is not None:
            on_ready()

    def _release(self) -> None:
        if self._on_ready is None:
            return
        self._on_ready = None
        self._timer.cancel()
        for place in self._watched:
            place.waiting.pop(self, None)
        self._watched.clear()
        self._purgatory.forget(self)


class Purgatory:
    """All waiting fetches of a broker, never more than `waiting_max`."""

    def __init__(self, *, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        # In order of arrival, in which they are released.
        self._waiting: dict[WaitingFetch, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self,
        watched: Sequence[Watched],
        *,
        bytes_missing: int,
        wait_seconds: float,
        on_ready: Callable[[], None],
    ) -> WaitingFetch | None:
        """Call `on_ready` when `bytes_missing` bytes were appended to `watched` or after `wait_seconds`.

        Returns None when the purgatory is full: the fetch is then answered with what there is, and its client fetches
        again.
        """
        if len(self._waiting) >= self._waiting_max:
            return None
        fetch = WaitingFetch(
            self,
            asyncio.get_running_loop(),
            watched,
            bytes_missing=bytes_missing,
            wait_seconds=wait_seconds,
            on_ready=on_ready,
        )
        self._waiting[fetch] = None
        return fetch

    def forget(self, fetch: WaitingFetch) -> None:
        """Called by a fetch that ends."""
        self._waiting.pop(fetch, None)

    def release_all(self) -> None:
        """Answer every waiting fetch now: the broker stops."""
        for fetch in tuple(self._waiting):
            fetch.wake()
