"""Keeps the bytes that compaction reads and writes to a rate: a wait after each read or write that was too early."""

from __future__ import annotations

from collections.abc import Callable


class ThroughputThrottle:
    """`wait` is called with seconds. Bytes above the rate are paid for right after they were moved."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        seconds: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._seconds = seconds
        self._wait = wait
        self._free_at = seconds()

    def spend(self, size_bytes: int) -> None:
        """Note bytes that were read or written; waits until they fit the rate."""
        now = self._seconds()
        # Time that was not used is lost: a burst after a pause would hit the disk at full speed.
        self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
        if self._free_at > now:
            self._wait(self._free_at - now)
