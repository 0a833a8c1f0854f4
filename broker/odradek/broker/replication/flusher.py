"""Flushes that run outside the event loop, and that many callers share.

A log has at most one sync in progress. A later caller waits for the next one, which begins when the first has ended and
covers all that was appended until then. Under load many appends share one fsync. Syncs of different logs run in
parallel in threads of their own, so that a slow device delays no read.

What it leaves out: when a flush is due (`housekeeping`, `leader`), and what has to be synced (`log`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from odradek.broker.replication.blocking import BlockingWork, settle
from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.storage.log import Log
from odradek.storage.log_flusher import Flush

Outcome = BaseException | None
Callback = Callable[[Outcome], None]


class Flusher:
    """Syncs logs to the device. All calls and callbacks are on the loop."""

    def __init__(self, *, threads: BlockingWork, clock: Clock) -> None:
        """`threads` run the syncs; their maker closes them."""
        self._threads = threads
        self._clock = clock
        # By log, the callers that wait for its next sync, from the first request to the end of the last sync.
        # Bounded by the requests that connections may have in flight.
        self._waiting: dict[Log, list[Callback]] = {}
        self._idle: asyncio.Event | None = None
        self.flushes = 0
        """The number of syncs that were done."""
        self.flush_seconds = 0.0
        """The time that they took in sum."""

    def request(self, log: Log, done: Callback) -> None:
        """Call `done` with None once everything appended to `log` by now is on the device, or with what went wrong.

        It is called in a later turn of the event loop: all that is appended in this turn shares the sync.
        """
        waiting = self._waiting.get(log)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[log] = [done]
        asyncio.get_running_loop().call_soon(self._begin, log)

    def is_at_work(self, log: Log) -> bool:
        """Whether a sync of the log is under way, or about to begin."""
        return log in self._waiting

    async def flush(self, log: Log) -> None:
        """Everything appended so far is on the device when this returns. Raises KafkaStorageError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.request(log, partial(settle, done))
        await done

    async def drain(self) -> None:
        """Wait until no sync is in progress or requested."""
        while self._waiting:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def _begin(self, log: Log) -> None:
        callers, self._waiting[log] = self._waiting[log], []
        flush: Flush | None
        try:
            flush = log.begin_flush()
            if flush is not None:
                future = self._threads.submit(flush.sync)
        except (KafkaStorageError, RuntimeError) as failure:
            self._end(log, callers, failure)
            return
        if flush is None:
            self._end(log, callers, None)
            return
        future.add_done_callback(
            partial(self._end_sync, log, flush, callers, self._clock.monotonic_seconds())
        )

    def _end_sync(
        self,
        log: Log,
        flush: Flush,
        callers: list[Callback],
        started_seconds: float,
        future: asyncio.Future[None],
    ) -> None:
        outcome = asyncio.CancelledError() if future.cancelled() else future.exception()
        try:
            if outcome is None:
                log.end_flush(flush)
                self.flushes += 1
                self.flush_seconds += self._clock.monotonic_seconds() - started_seconds
            elif isinstance(outcome, OSError):
                log.end_flush(flush, outcome)
        except KafkaStorageError as failure:
            outcome = failure
        self._end(log, callers, outcome)

    def _end(self, log: Log, callers: list[Callback], outcome: Outcome) -> None:
        if self._waiting[log]:
            self._begin(log)
        else:
            del self._waiting[log]
            if not self._waiting and self._idle is not None:
                self._idle.set()
        for done in callers:
            done(outcome)
