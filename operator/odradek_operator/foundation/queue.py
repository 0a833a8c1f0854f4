"""The work queue: keys that wait for a reconciler, each at most once, a few at work at a time.

A key that is added while it waits stays one key. A key that is added while it is worked on is worked on once more
afterwards. So the queue is never longer than there are resources, and no resource is worked on twice at once.
A key that failed is tried again after a pause that doubles, with jitter and a bound. An addition does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from random import Random

from odradek.foundation.tasks import TaskOwner
from odradek_operator.foundation.keys import Key

logger = logging.getLogger(__name__)

Work = Callable[[Key], Awaitable[float | None]]
"""Works on a key; the answer is after how many seconds to do so again, None to wait for an event."""


class WorkQueue:
    """Keys and the workers that take them. `counts` are for metrics: done, failed, and the seconds spent."""

    def __init__(
        self,
        work: Work,
        *,
        workers: int = 8,
        pause_seconds_min: float = 0.2,
        pause_seconds_max: float = 60.0,
        random: Random | None = None,
    ) -> None:
        self._work = work
        self._workers = workers
        self._pause_seconds_min = pause_seconds_min
        self._pause_seconds_max = pause_seconds_max
        self._random = random or Random()
        # In order of addition; a dictionary, so that a key is found and taken at once.
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._at_work: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._tasks = TaskOwner("work queue")
        self.done = 0
        self.failed = 0

    def start(self) -> None:
        """Begin to work. Must be called on the loop."""
        for number in range(self._workers):
            self._tasks.start(self._run(), name=f"worker {number}")

    async def close(self) -> None:
        """End: what is at work is interrupted, as by a crash, and the next start begins from what is there."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await self._tasks.close()

    def add(self, key: Key, *, after_seconds: float = 0.0) -> None:
        """Have `key` worked on, now or after a while; the earlier of several times counts."""
        if after_seconds > 0:
            self._schedule(key, after_seconds)
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._at_work:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake.set()

    @property
    def waiting(self) -> int:
        """The number of keys that wait for a worker."""
        return len(self._waiting)

    @property
    def at_work(self) -> int:
        """The number of keys that a worker has."""
        return len(self._at_work)

    @property
    def failing(self) -> int:
        """The number of keys that failed the last time."""
        return len(self._failures)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is worked on; what waits for a time does not count."""
        return not self._waiting and not self._at_work

    def _schedule(self, key: Key, seconds: float) -> None:
        if key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            key, _ = self._waiting.popitem(last=False)
            self._at_work.add(key)
            try:
                after_seconds = await self._attempt(key)
            finally:
                self._at_work.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif after_seconds is not None:
                self.add(key, after_seconds=max(after_seconds, self._pause_seconds_min))

    async def _attempt(self, key: Key) -> float | None:
        try:
            after_seconds = await self._work(key)
        except Exception as failure:
            self.failed += 1
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            # The exponent is bounded too: a key may fail for weeks.
            pause = min(self._pause_seconds_max, self._pause_seconds_min * 2.0 ** min(failures, 30))
            pause *= self._random.uniform(0.5, 1.0)
            logger.warning(
                "%s: attempt %d failed, the next is in %.1f s: %s: %s",
                key, failures, pause, type(failure).__name__, failure,
                exc_info=failure if failures == 1 and not _is_expected(failure) else None,
            )  # fmt: skip
            return pause
        self.done += 1
        self._failures.pop(key, None)
        return after_seconds


def _is_expected(failure: BaseException) -> bool:
    """Whether the message says all: the other side was not there or refused."""
    return isinstance(failure, OSError | TimeoutError) or getattr(failure, "is_expected", False)
