"""Wakes groups when their deadlines come: one timer of the loop for a group, whatever its size.

A heartbeat moves a member's deadline and never touches a timer. The timer fires at the earliest deadline that
the group knew when it was armed; mostly that has moved on by then, the group looks once at all its members,
and the timer is armed for the new earliest: about once per session timeout.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final, Protocol

logger = logging.getLogger(__name__)

# Between two tries of a group that failed to expire its members.
_RETRY_SECONDS: Final = 1.0


class Wakeable(Protocol):
    """A group: `expire` is called at `wake_at` (loop time) at the latest, and sets it anew."""

    wake_at: float

    def expire(self) -> None: ...


class SessionTimers:
    """The timers of all groups of one coordinator."""

    def __init__(self) -> None:
        self._armed: dict[Wakeable, tuple[float, asyncio.TimerHandle]] = {}

    def wake(self, group: Wakeable) -> None:
        """Make sure that `group` is woken at its `wake_at`."""
        armed = self._armed.get(group)
        if armed is not None:
            if armed[0] <= group.wake_at:
                return
            armed[1].cancel()
        elif group.wake_at == math.inf:
            return
        loop = asyncio.get_running_loop()
        self._armed[group] = (group.wake_at, loop.call_at(group.wake_at, self._fire, group))

    def forget(self, group: Wakeable) -> None:
        armed = self._armed.pop(group, None)
        if armed is not None:
            armed[1].cancel()

    def close(self) -> None:
        for _, handle in self._armed.values():
            handle.cancel()
        self._armed.clear()

    def __len__(self) -> int:
        return len(self._armed)

    def _fire(self, group: Wakeable) -> None:
        del self._armed[group]
        if asyncio.get_running_loop().time() < group.wake_at:
            self.wake(group)  # a loop may fire a little early, within its clock's resolution
            return
        try:
            group.expire()
        except Exception:
            logger.exception("a group failed to expire its members; it is tried again")
            # Its deadline may be the same still: to come back at once would leave the loop no time for others.
            group.wake_at = max(group.wake_at, asyncio.get_running_loop().time() + _RETRY_SECONDS)
        self.wake(group)
