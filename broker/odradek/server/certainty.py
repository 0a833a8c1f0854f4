"""Whether a broker still is what its image shows, as surely as one can know it: the controller said so a moment ago.

A broker that was stopped for a while, or cut off, goes on believing that it leads until it hears otherwise. Records it
gives are right all the same, but "there is no such offset" or "no such epoch" may be wrong by then, and makes clients
begin anew at another place. So these words are said only after the controller has answered, and everything it had
decided until then is applied here. Until then such a client is told to ask again.

Nothing runs while nobody asks. Whoever asks is likely to come again, after as long as its library waits between two
tries: the controller is asked on and on for some time, so that the answer is there then.
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


class Certainty:
    """`is_sure` may be called at any time from `__init__` to `stop`."""

    def __init__(self, catch_up: CatchUp, clock: Clock) -> None:
        self._catch_up = catch_up
        self._clock = clock
        self._tasks = TaskOwner("certainty")
        self._sure_as_of = float("-inf")
        self._wanted_until = float("-inf")
        self._is_stopped = False

    async def stop(self) -> None:
        self._is_stopped = True
        await self._tasks.close()

    def is_sure(self) -> bool:
        """Whether the image was true a moment ago. If not it may be soon: the controller is asked."""
        now = self._clock.monotonic_seconds()
        self._wanted_until = now + _WANTED_SECONDS
        if not self._tasks and not self._is_stopped:
            self._tasks.start(self._ask_on(), name="ask")
        return now - self._sure_as_of <= FRESH_SECONDS

    async def _ask_on(self) -> None:
        while (asked_at := self._clock.monotonic_seconds()) < self._wanted_until:
            # What counts is when it was asked: an answer may have waited here while this process was stopped.
            if await self._catch_up(_ANSWER_MS_MAX):
                self._sure_as_of = asked_at
            await asyncio.sleep(_PAUSE_SECONDS)
