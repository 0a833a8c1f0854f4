"""The time for which a consumer may take its ZooKeeper session as alive, by its own clock.

ZooKeeper gives the partitions of a silent consumer to others. A consumer that stood still (SIGSTOP, a paused machine)
does not know of it when it continues. So each answer of ZooKeeper extends a lease, from the time of its request on, for
the session's timeout less a margin. Without a lease nothing is handed out and nothing is committed.
"""

from __future__ import annotations

import time
from typing import Final

# Clocks of two machines run at different speeds, and a record needs time to reach the program.
_MARGIN: Final = 0.2

# On Linux the clock that continues while a machine sleeps.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    """Seconds, also those in which the process or the machine stood still."""
    return time.clock_gettime(_CLOCK)


class Lease:
    """`until` is read for every record, by any thread; the consumer's loop alone changes it."""

    __slots__ = ("_seconds", "until")

    def __init__(self, session_timeout_seconds: float) -> None:
        self._seconds = session_timeout_seconds * (1 - _MARGIN)
        self.until = 0.0

    @property
    def is_valid(self) -> bool:
        """Whether the session is alive for certain."""
        return lease_clock() < self.until

    def extend(self, asked_at: float) -> None:
        """ZooKeeper answered a request that was sent at this time of `lease_clock`."""
        self.until = max(self.until, asked_at + self._seconds)

    def end(self) -> None:
        """The session may be over."""
        self.until = 0.0
