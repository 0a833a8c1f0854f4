"""Shares the time of the event loop's turns among connections whose pipelined requests wait.

A connection that sent many requests at once answers some of them in a turn. With many such connections the turn would
be as long as all of them together, and a client with one request would wait for all. So they have one part of each turn
between them, one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from odradek.foundation.turn_limits import PIPELINED_SECONDS_PER_TURN_MAX


class Pipelined(Protocol):
    """A connection with requests that wait."""

    def take_turn(self) -> None:
        """Answer some of them."""
        ...


class RequestTurns:
    """The waiting connections of one listener. A `now` that stands still lets all of them answer in each turn."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._waiting: deque[Pipelined] = deque()
        self._is_due = False

    def wait(self, connection: Pipelined) -> None:
        """Let the connection take its turn when all that wait already have."""
        self._waiting.append(connection)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        waiting = self._waiting
        ends_at = self._now() + PIPELINED_SECONDS_PER_TURN_MAX
        try:
            for _ in range(len(waiting)):
                waiting.popleft().take_turn()
                if self._now() > ends_at:
                    break
        finally:
            # A fault in one connection's turn ends no other's.
            self._is_due = bool(waiting)
            if waiting:
                self._loop.call_soon(self._serve)
