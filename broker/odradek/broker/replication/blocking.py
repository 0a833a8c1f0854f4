"""The few threads in which a broker does what may wait for a disk: fsync, deletion, reads outside the page cache.

Threads start when first needed. Jobs that are queued when the broker stops are finished before `close` returns, so
that a requested flush is a flush done.

What it leaves out: any lock. Callers submit jobs that are safe beside the event loop.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Job(Protocol):
    """Work that keeps its own result."""

    def run(self) -> None:
        """Do the work, in a thread."""
        ...


AnyJob = TypeVar("AnyJob", bound=Job)


class BlockingWork:
    """A small pool. `waiting` counts jobs that are submitted and not finished, for metrics."""

    def __init__(self, *, threads_max: int, name: str = "disk") -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=f"odradek-{name}")
        self._threads_max = threads_max
        self.waiting = 0

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` in a thread; the future fails with what it raises. RuntimeError once closed."""
        self.waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, partial(_run_and_free, work))
        future.add_done_callback(self._finish_job)
        return future

    def _finish_job(self, _: asyncio.Future[Result]) -> None:
        self.waiting -= 1

    async def run_all(
        self, jobs: Iterable[AnyJob], on_done: Callable[[AnyJob], None], *, together: int = 1
    ) -> None:
        """Run all jobs, as many at once as there are threads, and call `on_done` with each on the loop.

        The next job is taken from `jobs` when a thread is free. `together` jobs share one switch to a thread and back,
        which pays when each is short. On cancellation the running jobs finish, without `on_done`.
        """
        remaining = iter(jobs)

        async def work() -> None:
            while batch := list(islice(remaining, together)):
                await self.submit(partial(_run_batch, batch))
                for job in batch:
                    on_done(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._threads_max):
                group.create_task(work())

    def close(self) -> None:
        """Finish the submitted jobs, then end the threads. Blocks."""
        self._pool.shutdown(wait=True)

    @property
    def executor(self) -> Executor:
        """The pool itself, for callers with futures of their own."""
        return self._pool


def settle(future: asyncio.Future[None], failure: BaseException | None) -> None:
    """The future fails with `failure`, or is done without one; nothing happens when it was done or cancelled."""
    if future.done():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


def _run_and_free(work: Callable[[], Result]) -> Result:
    """Run `work`. When it fails, free in the thread what its functions hold: up to 256 MB take the loop 50 ms."""
    try:
        return work()
    except Exception as failure:
        error: BaseException | None = failure
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        raise


def _run_batch(jobs: Iterable[Job]) -> None:
    for job in jobs:
        job.run()
