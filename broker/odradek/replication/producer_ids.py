"""Producer ids: numbers of the block that this broker holds, and the next block before it is used up.

The controller gives out blocks, so that no number is given twice, also after a restart; what is left of a
block when the broker stops is never used.

The next block is asked for when half of this one is used: no controller can be asked while the registry is away, and
producers that begin then must not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from odradek.foundation.errors import OdradekError

logger = logging.getLogger(__name__)


class ProducerIds:
    """Hands out numbers of the blocks that this broker holds: never more than the one in use and the next."""

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """`allocate()` gives something to await for (first, count)."""
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._half = 0
        self._spare: tuple[int, int] | None = None
        self._waiting: asyncio.Future[tuple[int, int]] | None = None

    async def next(self) -> int:
        """A number never given out before. Raises what the controller raises."""
        while self._next >= self._end:
            if self._spare is None:
                await asyncio.shield(self._asked())
            else:
                self._take_spare()
        number = self._next
        self._next += 1
        if self._next >= self._half:
            self.prepare()
        return number

    def prepare(self) -> None:
        """Ask for the next block, unless it is here or asked for; a failure is tried again with the next number."""
        if self._spare is None:
            self._asked()

    def _take_spare(self) -> None:
        assert self._spare is not None
        first, count = self._spare
        self._spare = None
        self._next, self._half, self._end = first, first + count // 2, first + count

    def _asked(self) -> asyncio.Future[tuple[int, int]]:
        """All who find the blocks used up wait for the same new one."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._allocate())
            self._waiting.add_done_callback(self._came)
        return self._waiting

    def _came(self, asked: asyncio.Future[tuple[int, int]]) -> None:
        self._waiting = None
        if asked.cancelled():
            return
        failure = asked.exception()
        if failure is None:
            self._spare = asked.result()
        elif isinstance(failure, OdradekError):
            logger.debug("the next block of producer ids is asked for again: %s", failure)
        else:
            logger.error("the next block of producer ids could not be had", exc_info=failure)

    async def stop(self) -> None:
        """Give up a question that is under way."""
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
