"""The few threads in which a broker does what may wait for a disk: fsync, deletion, reads outside the page
cache.

Threads start when first needed. Work that is queued when the broker stops is finished before `close`
returns, so that a flush asked for is a flush done. What it leaves out: any lock; callers hand in work that
is safe beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class BlockingWork:
    """A small owned pool. `waiting` counts work handed in and not finished, for metrics."""

    def __init__(self, *, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="odradek-disk")
        self.waiting = 0

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` in a thread; the future fails with what it raises. RuntimeError once closed."""
        self.waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: asyncio.Future[Result]) -> None:
        self.waiting -= 1

    def close(self) -> None:
        """Finish what was handed in, then end the threads. Blocks."""
        self._pool.shutdown(wait=True)

    @property
    def executor(self) -> Executor:
        """The pool itself, for whoever brings futures of their own."""
        return self._pool
