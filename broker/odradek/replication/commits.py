"""Records of one partition that were appended and are not committed yet, and who waits for them.

With flush.messages records count only once so few of those before them are unflushed that the setting holds: until
then they are neither acknowledged nor shown to readers, as in Apache Kafka, whose append returns after the flush. Here
the append returns at once, and all that came in during one flush are committed by the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from odradek.foundation.limits import APPENDS_UNCOMMITTED_PER_PARTITION_MAX
from odradek.log.log import Log
from odradek.replication.flushing import Flusher, Outcome


class Commits:
    """Of one partition; those who wait are bounded by the requests that connections may have under way."""

    __slots__ = (
        "_committed_offset",
        "_flusher",
        "_is_flushing",
        "_log",
        "_on_commit",
        "_uncommitted",
        "_waiting",
    )

    def __init__(self, log: Log, *, flusher: Flusher, on_commit: Callable[[int, int], None]) -> None:
        """`on_commit` is called with the offset after the last committed record and how many bytes are new."""
        self._log = log
        self._flusher = flusher
        self._on_commit = on_commit
        self._is_flushing = False
        self._committed_offset = 0
        # (offset after it, bytes) of each append, in order.
        self._uncommitted: deque[tuple[int, int]] = deque()
        # Whoever waits until all below an offset is committed, lowest first but for duplicates, which are rare.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, end_offset: int, size_bytes: int) -> None:
        """An append up to `end_offset` waits for a flush, which is asked for."""
        if len(self._uncommitted) >= APPENDS_UNCOMMITTED_PER_PARTITION_MAX:
            # They are committed together then, which nobody can tell.
            size_bytes += self._uncommitted.pop()[1]
        self._uncommitted.append((end_offset, size_bytes))
        self._flush()

    def wait(self, end_offset: int) -> asyncio.Future[None]:
        """Done once all below `end_offset` is committed; fails with KafkaStorageError when it cannot be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, future))
        self._flush()
        return future

    def _flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._flusher.request(self._log, self._flushed)

    def _flushed(self, outcome: Outcome) -> None:
        self._is_flushing = False
        waiting, self._waiting = self._waiting, []
        if outcome is not None:
            self._uncommitted.clear()
            for _, future in waiting:
                if not future.done():
                    future.set_exception(outcome)
            return
        size_bytes = 0
        while self._uncommitted:
            end_offset, added_bytes = self._uncommitted[0]
            if end_offset - self._log.recovery_point >= self._log.config.flush_messages:
                break
            self._uncommitted.popleft()
            self._committed_offset = end_offset
            size_bytes += added_bytes
        if size_bytes:
            self._on_commit(self._committed_offset, size_bytes)
        for offset, future in waiting:
            if self._uncommitted and offset > self._committed_offset:
                self._waiting.append((offset, future))
            elif not future.done():
                future.set_result(None)
        if self._uncommitted:
            self._flush()
