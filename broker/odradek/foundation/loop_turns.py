"""Long work of many requests: each turn of the event loop has a part of one of them.

A part is bounded. With `asyncio.sleep(0)` after it, the next turn has a part of all requests. A client with many
connections could make that turn as long as all their parts together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from odradek.foundation.per_loop import PerLoop


class _Line:
    """Those that wait in one event loop, the longest first. It is dropped when none is left."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()

    def join(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._wake_next)
        return future

    def _wake_next(self) -> None:
        waiting = self._waiting
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                break
        if waiting:
            self._loop.call_soon(self._wake_next)
        else:
            _lines.forget()


_lines: Final = PerLoop(_Line)


async def next_turn() -> None:
    """Let others run until it is this caller's turn: those that wait already come first."""
    await _lines.get().join()
