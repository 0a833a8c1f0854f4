"""Bounds the TLS handshakes of one listener: begun in one turn, open at once, and in time.

A handshake takes a millisecond of the event loop, and forty kilobytes while it lasts. So the loop does a few steps in a
turn, and others wait their turn. Beyond the number that may be open one is given up: the oldest of the address that has
most. Addresses take turns with their steps. So a peer that stalls, or begins thousands, loses its own places and waits
for itself.
"""

from __future__ import annotations

import asyncio
from collections import deque

from odradek.foundation.limits import HANDSHAKE_SECONDS_MAX, HANDSHAKE_STEPS_PER_TURN_MAX, HANDSHAKES_OPEN_MAX
from odradek.network.tls import TlsStream


class Handshakes:
    """The handshakes under way of one listener."""

    def __init__(
        self, *, open_max: int = HANDSHAKES_OPEN_MAX, seconds_max: float = HANDSHAKE_SECONDS_MAX
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._open_max = open_max
        self._seconds_max = seconds_max
        self._open: dict[TlsStream, float] = {}  # and when each must be done; the oldest first
        # The same by address. Then those with a step to make: the first address has the next turn.
        self._by_address: dict[str, dict[TlsStream, None]] = {}
        self._waiting: dict[str, deque[TlsStream]] = {}
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
            most = max(self._by_address.values(), key=len)
            next(iter(most)).fail(
                ConnectionAbortedError(
                    f"{self._open_max} handshakes are open, and it is the oldest of the address that has most"
                )
            )
        self._open[stream] = self._loop.time() + self._seconds_max
        self._by_address.setdefault(stream.address, {})[stream] = None
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds_max, self._expire)

    def step_soon(self, stream: TlsStream) -> None:
        """Let `stream` make its next step when its turn comes."""
        if stream in self._are_waiting:
            return
        self._are_waiting.add(stream)
        self._waiting.setdefault(stream.address, deque()).append(stream)
        if not self._is_stepping:
            self._is_stepping = True
            self._loop.call_soon(self._step)

    def end(self, stream: TlsStream) -> None:
        """Count a handshake as done or failed."""
        if stream not in self._open:
            return
        del self._open[stream]
        of_address = self._by_address[stream.address]
        del of_address[stream]
        if not of_address:
            del self._by_address[stream.address]

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
        try:
            for _ in range(HANDSHAKE_STEPS_PER_TURN_MAX):
                if not waiting:
                    break
                address = next(iter(waiting))
                of_address = waiting.pop(address)
                stream = of_address.popleft()
                if of_address:
                    waiting[address] = of_address
                self._are_waiting.discard(stream)
                stream.step()
        finally:
            # A fault in one handshake's step ends no other's.
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
