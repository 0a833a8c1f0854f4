"""The limit of bytes that a mirror reads in a second (`bytes.per.second.max`), shared by all flows of the process.

A fetch may be as large as it is. The next one waits until the average is right again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# Unused bandwidth of at most this time may be used later at once.
_SAVED_SECONDS_MAX: Final = 1.0


class Bandwidth:
    """Count with `used`, and wait with `wait` before the next use. Without a limit both do nothing."""

    def __init__(self, bytes_per_second_max: int, *, now: Callable[[], float]) -> None:
        self._rate = bytes_per_second_max
        self._now = now
        self._saved = 0.0
        self._at = now()

    @property
    def bytes_per_second_max(self) -> int:
        """The limit; 0 for none."""
        return self._rate

    def note_read(self, count: int) -> None:
        """These bytes were read."""
        if self._rate:
            self._refill()
            self._saved -= count

    def delay_seconds(self) -> float:
        """The time to wait before the next read."""
        if not self._rate:
            return 0.0
        self._refill()
        return max(0.0, -self._saved / self._rate)

    async def wait(self) -> None:
        """Wait until the next read may begin."""
        delay = self.delay_seconds()
        if delay > 0:
            await asyncio.sleep(delay)

    def _refill(self) -> None:
        now = self._now()
        self._saved = min(_SAVED_SECONDS_MAX * self._rate, self._saved + (now - self._at) * self._rate)
        self._at = now
