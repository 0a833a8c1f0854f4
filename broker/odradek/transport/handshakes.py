"""Bounds the TLS handshakes of one listener: begun in one turn, open at once, and in time.

A handshake takes a millisecond of the event loop, and forty kilobytes while it lasts. So the loop does a few steps in a
turn, and others wait their turn. Beyond the number that may be open the oldest is given up. So a peer that
stalls loses its place; an honest one is done long before.
"""

from __future__ import annotations

import asyncio
from collections import deque

from odradek.foundation.limits import HANDSHAKE_SECONDS_MAX, HANDSHAKE_STEPS_PER_TURN_MAX, HANDSHAKES_OPEN_MAX
from odradek.transport.tls import TlsStream


class Handshakes:
    """The handshakes under way of one listener."""

    def __init__(
        self, *, open_max: int = HANDSHAKES_OPEN_MAX, seconds_max: float = HANDSHAKE_SECONDS_MAX
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._open_max = open_max
        self._seconds_max = seconds_max
        self._open: dict[TlsStream, float] = {}  # and when each must be done; the oldest first
        self._waiting: deque[TlsStream] = deque()
        self._are_waiting: set[TlsStream] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stepping = False
        self.failed = 0
        """Handshakes that failed, since the start."""
        self.completed = 0
        """Handshakes that succeeded, since the start."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, stream: TlsStream) -> None:
        """Count a handshake that begins now."""
        if len(self._open) >= self._open_max:
            oldest = next(iter(self._open))
            oldest.fail(ConnectionAbortedError(f"{self._open_max} handshakes are open, and it is the oldest"))
        self._open[stream] = self._loop.time() + self._seconds_max
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds_max, self._expire)

    def step_soon(self, stream: TlsStream) -> None:
        """Let `stream` make its next step when its turn comes."""
        if stream in self._are_waiting:
            return
        self._are_waiting.add(stream)
        self._waiting.append(stream)
        if not self._is_stepping:
            self._is_stepping = True
            self._loop.call_soon(self._step)

    def end(self, stream: TlsStream) -> None:
        """Count a handshake as done or failed."""
        self._open.pop(stream, None)

    def close(self) -> None:
        """Give up all handshakes that are open."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._are_waiting.clear()
        for stream in list(self._open):
            stream.fail(ConnectionAbortedError("the broker stops"))

    def _step(self) -> None:
        waiting = self._waiting
        for _ in range(min(HANDSHAKE_STEPS_PER_TURN_MAX, len(waiting))):
            stream = waiting.popleft()
            self._are_waiting.discard(stream)
            stream.step()
        self._is_stepping = bool(waiting)
        if waiting:
            self._loop.call_soon(self._step)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for stream, deadline in list(self._open.items()):
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._expire)
                return
            stream.fail(TimeoutError(f"the handshake took longer than {self._seconds_max:g} s"))
