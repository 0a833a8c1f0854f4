"""Long work of many requests: each turn of the event loop has a part of one of them.

A part is bounded. With `asyncio.sleep(0)` after it, the next turn has a part of all requests. A client with many
connections could make that turn as long as all their parts together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class _Line:
    """Those that wait in one event loop, the longest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    def join(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._wake_next)
        return future

    def _wake_next(self) -> None:
        waiting = self._waiting
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                break
        self._is_due = bool(waiting)
        if waiting:
            self._loop.call_soon(self._wake_next)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


async def next_turn() -> None:
    """Let others run until it is this caller's turn: those that wait already come first."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line(loop)
    await line.join()
