"""Time as an object, so that a test or a simulation sets it.

Timers are not here: they are the running event loop's (`loop.call_later`, `asyncio.sleep`, `asyncio.timeout`), and a
simulation brings a loop whose `time()` is virtual. The loop lacks the wall clock, and a monotonic clock for code that
runs without a loop.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump when the host's clock is set."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The host's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Without a call of its own: requests ask some ten times.
    monotonic_seconds = staticmethod(time.monotonic)
