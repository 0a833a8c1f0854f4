"""Requests that are answered once the replicas are far enough: acks=all, and deletions of records.

Such a request waits at each of its partitions for an offset. The partition resolves it when its high watermark is there
(for deletions its low watermark), or when it never will be. The last partition, or the request's time limit, has it
answered.

All limits share one timer: a produce rarely waits for its whole limit, and a timer each would cost more than the wait.
A limit is therefore kept to within a twentieth of a second.

What it leaves out: the answer, which is the handler's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from odradek.broker.replication.blocking import settle
from odradek.foundation.errors import RequestTimedOut

_TICK_SECONDS: Final = 0.05


class Waiter(Protocol):
    """One that waits; each of its `Waiters` resolves it once."""

    def resolve_waiters(self, waiters: Waiters, failure: Exception | None) -> None:
        """The offset was reached, or never will be."""
        ...


class Waiters:
    """The requests that wait for a watermark of one partition, in order of arrival."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[Waiter, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, waiting: Waiter, offset: int) -> None:
        self._offsets[waiting] = offset

    def forget(self, waiting: Waiter) -> None:
        self._offsets.pop(waiting, None)

    async def wait(self, offset: int) -> None:
        """Wait for `offset`. Raises what `fail` is called with."""
        waiter = _FutureWaiter()
        self.add(waiter, offset)
        try:
            await waiter.future
        finally:
            self.forget(waiter)

    def release(self, watermark: int, failure: Exception | None = None) -> None:
        """Resolve those whose offset is not above `watermark`.

        Offsets ascend but for duplicates of a batch, which wait a little longer.
        """
        ready = []
        for waiting, offset in self._offsets.items():
            if offset > watermark:
                break
            ready.append(waiting)
        self._notify(ready, failure)

    def release_any(self, watermark: int) -> None:
        """As `release`, where offsets do not ascend."""
        self._notify([one for one, offset in self._offsets.items() if offset <= watermark], None)

    def fail(self, failure: Exception) -> None:
        self._notify(list(self._offsets), failure)

    def _notify(self, ready: list[Waiter], failure: Exception | None) -> None:
        for waiting in ready:
            del self._offsets[waiting]
        for waiting in ready:
            waiting.resolve_waiters(self, failure)


class _FutureWaiter:
    """Waits for one watermark, for a coroutine."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve_waiters(self, waiters: Waiters, failure: Exception | None) -> None:
        settle(self.future, failure)


Outcome = Mapping[Waiters, Exception]
OnDone = Callable[[Outcome], None]


class WaitingRequest:
    """One request. `on_done` is called once, with the failures, unless the request is cancelled first."""

    __slots__ = ("_acknowledgements", "_failures", "_missing", "_on_done", "tick")

    def __init__(
        self, acknowledgements: Acknowledgements, wanted: Mapping[Waiters, int], *, tick: int, on_done: OnDone
    ) -> None:
        self._acknowledgements = acknowledgements
        self._failures: dict[Waiters, Exception] = {}
        self._missing = dict.fromkeys(wanted)
        self._on_done: OnDone | None = on_done
        self.tick = tick
        for waiters, offset in wanted.items():
            waiters.add(self, offset)

    def resolve_waiters(self, waiters: Waiters, failure: Exception | None) -> None:
        if waiters not in self._missing:
            return
        del self._missing[waiters]
        if failure is not None:
            self._failures[waiters] = failure
        if not self._missing:
            self._end()

    def time_out(self) -> None:
        """The request's time limit is over."""
        late = RequestTimedOut(
            "The replicas did not get there in the time that the request allows; try again."
        )
        for waiters in self._missing:
            self._failures[waiters] = late
        self._end()

    def cancel(self) -> None:
        """Forget the request: its connection is gone. Harmless after it was answered."""
        self._on_done = None
        self._end()

    def _end(self) -> None:
        for waiters in self._missing:
            waiters.forget(self)
        self._missing.clear()
        self._acknowledgements.forget(self)
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(self._failures)


class Acknowledgements:
    """All requests of a broker that wait for replicas, never more than `waiting_max`."""

    def __init__(self, *, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._count = 0
        # By the tick of the loop's time in which their limit ends.
        self._by_tick: dict[int, dict[WaitingRequest, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0

    def __len__(self) -> int:
        return self._count

    def wait(
        self, wanted: Mapping[Waiters, int], *, timeout_seconds: float, on_done: OnDone
    ) -> WaitingRequest | None:
        """Call `on_done` when all of `wanted` have reached their offsets or failed, or when the time is over.

        Those that have not reached their offset then fail with RequestTimedOut. None when too many requests wait
        already; the caller answers as after the time limit.
        """
        if self._count >= self._waiting_max:
            return None
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + max(timeout_seconds, 0.0)) / _TICK_SECONDS)
        waiting = WaitingRequest(self, wanted, tick=tick, on_done=on_done)
        self._by_tick.setdefault(tick, {})[waiting] = None
        self._count += 1
        if self._timer is None or tick < self._timer_tick:
            self._set_timer(loop, tick)
        return waiting

    def forget(self, waiting: WaitingRequest) -> None:
        """Called by a request that ends."""
        same_tick = self._by_tick.get(waiting.tick)
        if same_tick is not None and same_tick.pop(waiting, self) is None:
            self._count -= 1
            if not same_tick:
                del self._by_tick[waiting.tick]

    def _set_timer(self, loop: asyncio.AbstractEventLoop, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = tick
        self._timer = loop.call_at(tick * _TICK_SECONDS, self._fire)

    def _fire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        # The timer's own tick is due, however the loop rounds its time.
        now_tick = max(self._timer_tick, math.floor(loop.time() / _TICK_SECONDS))
        for tick in [tick for tick in self._by_tick if tick <= now_tick]:
            for waiting in list(self._by_tick.get(tick, ())):
                waiting.time_out()
        if self._by_tick:
            self._set_timer(loop, min(self._by_tick))

    def close(self) -> None:
        """Answer all that wait, as after their time limit: the broker stops."""
        for same_tick in list(self._by_tick.values()):
            for waiting in list(same_tick):
                waiting.time_out()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
