"""A clean stop: the first SIGTERM or Ctrl-C lets a batch end, the second one ends it at once.

The handler only sets a flag. An Event would wait for a lock that the interrupted code may hold.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# How long a signal may wait to be seen between two batches.
_SLICE_SECONDS: Final = 0.1


class StopRequest:
    """Whether a stop was asked for, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt when a stop was asked for before."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)

    def now_seconds(self) -> float:
        """The monotonic clock, as `wait_until` reads it."""
        return time.monotonic()

    def wait_until(self, moment_seconds: float) -> None:
        """Wait until that time of the clock, or until a stop is asked for."""
        while not self and (left := moment_seconds - self.now_seconds()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """A request that signals make. PySpark has a handler of its own for Ctrl-C, which is put back at the end.

    Outside of the main thread no signal arrives.
    """
    request = StopRequest()
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, request.handle) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
