"""The few threads in which a broker does what may wait for a disk: fsync, deletion, reads outside the page
cache.

Threads start when first needed. Work that is queued when the broker stops is finished before `close`
returns, so that a flush asked for is a flush done. What it leaves out: any lock; callers hand in work that
is safe beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Piece(Protocol):
    """A piece of work that keeps what came of it."""

    def run(self) -> None:
        """Do it, in a thread."""
        ...


AnyPiece = TypeVar("AnyPiece", bound=Piece)


class BlockingWork:
    """A small owned pool. `waiting` counts work handed in and not finished, for metrics."""

    def __init__(self, *, threads_max: int, name: str = "disk") -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=f"odradek-{name}")
        self._threads_max = threads_max
        self.waiting = 0

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` in a thread; the future fails with what it raises. RuntimeError once closed."""
        self.waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: asyncio.Future[Result]) -> None:
        self.waiting -= 1

    async def run_all(
        self, pieces: Iterable[AnyPiece], take_in: Callable[[AnyPiece], None], *, together: int = 1
    ) -> None:
        """Run all pieces, as many at once as there are threads, and hand each to `take_in` on the loop.

        A piece is asked for when a thread is free for it. `together` of them share one way to a thread and back,
        which pays when each is short. When this is cancelled, those that run are finished and not taken in.
        """
        remaining = iter(pieces)

        async def work() -> None:
            while batch := list(islice(remaining, together)):
                await self.submit(partial(_run_batch, batch))
                for piece in batch:
                    take_in(piece)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._threads_max):
                group.create_task(work())

    def close(self) -> None:
        """Finish what was handed in, then end the threads. Blocks."""
        self._pool.shutdown(wait=True)

    @property
    def executor(self) -> Executor:
        """The pool itself, for whoever brings futures of their own."""
        return self._pool


def _run_batch(pieces: Iterable[Piece]) -> None:
    for piece in pieces:
        piece.run()
