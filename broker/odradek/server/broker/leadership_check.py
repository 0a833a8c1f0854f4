"""Whether a broker still leads what its image shows: the controller has confirmed it a moment ago.

A broker that was stopped for a while, or cut off, believes that it leads until it learns otherwise. The records that it
returns are right all the same. But "there is no such offset" or "no such epoch" may be wrong by then, and makes clients
restart at another offset. So the broker gives these answers only after the controller has answered, and after the
broker has applied everything that the controller had decided. Until then it asks such a client to retry.

Nothing runs while nobody asks. A client that asks is likely to retry after its library's pause. So the broker asks the
controller repeatedly for some time, and the answer is there at the retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.tasks import TaskOwner

# Shorter than any session: within it nobody else came to lead because this broker was thought dead.
FRESH_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
_WANTED_SECONDS: Final = 30.0
_ANSWER_MS_MAX: Final = 2_000

# Hears from the controller and applies what it had decided, within so many ms; False when that was not to be had.
CatchUp = Callable[[int], Awaitable[bool]]


class LeadershipCheck:
    """`is_confirmed` may be called at any time from `__init__` to `stop`."""

    def __init__(self, catch_up: CatchUp, clock: Clock) -> None:
        self._catch_up = catch_up
        self._clock = clock
        self._tasks = TaskOwner("leadership_check")
        self._confirmed_at = float("-inf")
        self._wanted_until = float("-inf")
        self._is_stopped = False

    async def stop(self) -> None:
        self._is_stopped = True
        await self._tasks.close()

    def is_confirmed(self) -> bool:
        """Whether the image was true a moment ago. If not it may be soon: the controller is asked."""
        now = self._clock.monotonic_seconds()
        self._wanted_until = now + _WANTED_SECONDS
        if not self._tasks and not self._is_stopped:
            self._tasks.start(self._poll_controller(), name="ask")
        return now - self._confirmed_at <= FRESH_SECONDS

    async def _poll_controller(self) -> None:
        while (asked_at := self._clock.monotonic_seconds()) < self._wanted_until:
            # What counts is when it was asked: an answer may have waited here while this process was stopped.
            if await self._catch_up(_ANSWER_MS_MAX):
                self._confirmed_at = asked_at
            await asyncio.sleep(_PAUSE_SECONDS)
