"""Producer ids: numbers of the block that this broker holds, and the next block before the first is used up.

The controller allocates blocks, so that no number is used twice, also after a restart. The rest of a block is lost when
the broker stops.

The next block is requested when half of the current one is used. No controller answers while the registry is away, and
new producers must not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from odradek.foundation.errors import OdradekError

logger = logging.getLogger(__name__)


class ProducerIds:
    """Gives numbers of the blocks that this broker holds: at most the current one and the next."""

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """`allocate()` requests a block, as (first, count)."""
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._half = 0
        self._spare: tuple[int, int] | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def next(self) -> int:
        """A number that was never used. Raises what the controller raises."""
        while self._next >= self._end:
            if self._spare is None:
                await asyncio.shield(self._request_block())
            else:
                self._take_spare()
        number = self._next
        self._next += 1
        if self._next >= self._half:
            self.prepare()
        return number

    def prepare(self) -> None:
        """Request the next block, unless it is here or requested; a failure is retried with the next number."""
        if self._spare is None:
            self._request_block()

    def _take_spare(self) -> None:
        assert self._spare is not None
        first, count = self._spare
        self._spare = None
        self._next, self._half, self._end = first, first + count // 2, first + count

    def _request_block(self) -> asyncio.Future[None]:
        """All callers that find the blocks used up wait for the same new one."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._receive_block())
            self._waiting.add_done_callback(_log_failure)
        return self._waiting

    async def _receive_block(self) -> None:
        """The block is here, and nothing is requested, in the step in which the answer is. A callback of the request
        comes a turn later: a caller in between would wait for what is over already, and so without end.
        """
        try:
            self._spare = await self._allocate()
        finally:
            self._waiting = None

    async def stop(self) -> None:
        """Cancel a request that is in progress."""
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def _log_failure(asked: asyncio.Future[None]) -> None:
    failure = None if asked.cancelled() else asked.exception()
    if isinstance(failure, OdradekError):
        logger.debug("the next block of producer ids is asked for again: %s", failure)
    elif failure is not None:
        logger.error("the next block of producer ids could not be had", exc_info=failure)
