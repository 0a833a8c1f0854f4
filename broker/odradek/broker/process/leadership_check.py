"""Whether a broker still leads the partitions that its image shows, as the controller confirmed a moment ago.

A broker that was paused or partitioned assumes that it leads until it receives the next image. The records that it
returns are right nevertheless. But OFFSET_OUT_OF_RANGE or an unknown epoch may be wrong by then, and makes clients
restart at another offset. So the broker gives these answers only after the controller has answered, and after the
broker has applied everything that the controller had decided. Until then it asks such a client to retry.

The check polls only on demand. A client is likely to retry after its library's pause. So the broker polls the
controller for some time after a request, and a confirmation exists at the retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.tasks import TaskOwner

# Shorter than any session: within it no controller fences this broker and elects another.
FRESH_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
_WANTED_SECONDS: Final = 30.0
_ANSWER_MS_MAX: Final = 2_000

# Waits up to so many ms until all decisions of the controller are applied. Returns False when the time is up.
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
        """Whether the image was true a moment ago. If not, polls of the controller start, and it may be true soon."""
        now = self._clock.monotonic_seconds()
        self._wanted_until = now + _WANTED_SECONDS
        if not self._tasks and not self._is_stopped:
            self._tasks.start(self._poll_controller(), name="ask")
        return now - self._confirmed_at <= FRESH_SECONDS

    async def _poll_controller(self) -> None:
        while (asked_at := self._clock.monotonic_seconds()) < self._wanted_until:
            # The time of the request counts: its answer may have waited while this process was stopped.
            if await self._catch_up(_ANSWER_MS_MAX):
                self._confirmed_at = asked_at
            await asyncio.sleep(_PAUSE_SECONDS)
