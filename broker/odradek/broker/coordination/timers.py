"""Session timers: one timer of the loop for each group (or other key) with deadlines, of any size.

A heartbeat moves a member's deadline and never touches a timer. The timer fires at the earliest deadline that was known
when it was set. By then that deadline has mostly moved: the group looks at all members once, and the timer is set for
the earliest deadline of now. So a timer fires about once per session timeout.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final, Protocol

logger = logging.getLogger(__name__)

# Between two attempts of a group that failed to expire its members.
_RETRY_SECONDS: Final = 1.0


class Wakeable(Protocol):
    """A group: `expire` is called at `wake_at` (loop time) at the latest, and sets the next `wake_at`."""

    wake_at: float

    def expire(self) -> None: ...


class TimerHost(Protocol):
    """The clock and the timers of a shard."""

    def now(self) -> float:
        """The loop's time in seconds; deadlines are on this scale."""
        ...

    def wake(self, timed: Wakeable) -> None:
        """Set the timer: `wake_at` may have moved."""
        ...


class SessionTimers:
    """The timers of one coordinator, by what they wake."""

    def __init__(self) -> None:
        self._armed: dict[Wakeable, tuple[float, asyncio.TimerHandle]] = {}

    def wake(self, timed: Wakeable) -> None:
        """Make sure that `timed` expires at its `wake_at`."""
        armed = self._armed.get(timed)
        if armed is not None:
            if armed[0] <= timed.wake_at:
                return
            armed[1].cancel()
        elif timed.wake_at == math.inf:
            return
        loop = asyncio.get_running_loop()
        self._armed[timed] = (timed.wake_at, loop.call_at(timed.wake_at, self._fire, timed))

    def forget(self, timed: Wakeable) -> None:
        armed = self._armed.pop(timed, None)
        if armed is not None:
            armed[1].cancel()

    def close(self) -> None:
        for _, handle in self._armed.values():
            handle.cancel()
        self._armed.clear()

    def __len__(self) -> int:
        return len(self._armed)

    def _fire(self, timed: Wakeable) -> None:
        del self._armed[timed]
        if asyncio.get_running_loop().time() < timed.wake_at:
            self.wake(timed)  # a loop may fire a little early, within its clock's resolution
            return
        try:
            timed.expire()
        except Exception:
            logger.exception("a group failed to expire its members; it is tried again")
            # Its deadline may be unchanged: a timer that fires at once again would leave the loop no time for others.
            timed.wake_at = max(timed.wake_at, asyncio.get_running_loop().time() + _RETRY_SECONDS)
        self.wake(timed)
