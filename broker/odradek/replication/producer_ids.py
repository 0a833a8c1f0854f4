"""Producer ids: numbers of the block that this broker holds, and the next block when it is used up.

The controller gives out blocks, so that no number is given twice, also after a restart; what is left of a
block when the broker stops is never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """Hands out numbers of the block that this broker holds, and asks for the next block when it is used
    up.
    """

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """`allocate()` gives something to await for (first, count)."""
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._waiting: asyncio.Future[tuple[int, int]] | None = None

    async def next(self) -> int:
        """A number never given out before. Raises what the controller raises."""
        while self._next >= self._end:
            await self._refill()
        number = self._next
        self._next += 1
        return number

    async def _refill(self) -> None:
        # All who find the block used up wait for the same new one.
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._allocate())
        waiting = self._waiting
        try:
            first, count = await asyncio.shield(waiting)
        finally:
            if self._waiting is waiting:
                self._waiting = None
        if first >= self._end:
            self._next, self._end = first, first + count
