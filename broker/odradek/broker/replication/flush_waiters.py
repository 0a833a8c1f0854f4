"""Appends of one partition that wait for a flush, and the requests that wait for them.

With flush.messages a record is committed only once fewer than that many records before it are unflushed. Until then it
is neither acknowledged nor readable. In Apache Kafka the append returns after the flush. Here it returns at once, and
one flush commits all that was appended during the flush before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from odradek.broker.replication.blocking import settle
from odradek.broker.replication.flusher import Flusher, Outcome
from odradek.foundation.limits import APPENDS_UNCOMMITTED_PER_PARTITION_MAX
from odradek.storage.log import Log


class FlushWaiters:
    """Of one partition. The requests that wait are bounded by those that connections may have in flight."""

    __slots__ = (
        "_flushed_offset",
        "_flusher",
        "_is_flushing",
        "_log",
        "_on_flushed",
        "_unflushed",
        "_waiting",
    )

    def __init__(self, log: Log, *, flusher: Flusher, on_flushed: Callable[[int], None]) -> None:
        """`on_flushed` is called with the offset after the last record that is flushed as far as it has to be."""
        self._log = log
        self._flusher = flusher
        self._on_flushed = on_flushed
        self._is_flushing = False
        self._flushed_offset = 0
        # The offset after each append, ascending.
        self._unflushed: deque[int] = deque()
        # (offset, future): resolved once all below the offset is flushed. Ascending but for duplicates, which are rare.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, end_offset: int) -> None:
        """An append up to `end_offset` waits for a flush, which is requested."""
        if len(self._unflushed) >= APPENDS_UNCOMMITTED_PER_PARTITION_MAX:
            # The two newest appends are then committed together, which no client can see.
            self._unflushed.pop()
        self._unflushed.append(end_offset)
        self._flush()

    def wait(self, end_offset: int) -> asyncio.Future[None]:
        """Done once all below `end_offset` is flushed; fails with KafkaStorageError when it cannot be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, future))
        self._flush()
        return future

    def _flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._flusher.request(self._log, self._end_flush)

    def _end_flush(self, outcome: Outcome) -> None:
        self._is_flushing = False
        waiting, self._waiting = self._waiting, []
        if outcome is not None:
            self._unflushed.clear()
            for _, future in waiting:
                settle(future, outcome)
            return
        has_moved = False
        while self._unflushed:
            end_offset = self._unflushed[0]
            if end_offset - self._log.recovery_point >= self._log.config.flush_messages:
                break
            self._unflushed.popleft()
            self._flushed_offset = end_offset
            has_moved = True
        if has_moved:
            self._on_flushed(self._flushed_offset)
        for offset, future in waiting:
            if self._unflushed and offset > self._flushed_offset:
                self._waiting.append((offset, future))
            else:
                settle(future, None)
        if self._unflushed:
            self._flush()
