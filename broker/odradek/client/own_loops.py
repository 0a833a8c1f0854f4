"""The event loops of clients that block: one in the thread of its caller, and one in a thread of its own.

The synchronous face of a client without background work needs no other thread: a call runs the same coroutine that the
asyncio face has. So it costs one turn of a loop, and no message between threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Final, Generic, TypeVar

from odradek.foundation.client_limits import BLOCKING_END_SECONDS_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.event_loop import new_event_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A wait in slices, so that Ctrl-C reaches it.
_SLICE_SECONDS: Final = 0.2
# How long the tasks of a client that was not closed may take to end.
_END_SECONDS_MAX: Final = 1.0


class _OwnLoop:
    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._process_id = os.getpid()

    def _check_usable(self) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError("this client was made before a fork; make another in the new process")
        if self._loop.is_closed():
            raise RuntimeError("this client is closed; make another")

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing to close: it was done, or is left to the parent of a forked process."""
        return self._loop.is_closed() or os.getpid() != self._process_id


class CallerLoop(_OwnLoop):
    """A loop that runs only while a call lasts. Several threads may use it; their calls wait for one another.

    One that was used and is not closed is ended when it is collected, or with the program. A ResourceWarning names its
    owner then.
    """

    def __init__(self, owner: str) -> None:
        """`owner` begins the warning: "a Producer"."""
        super().__init__()
        self._lock = threading.Lock()
        self._owner = owner
        self._end: weakref.finalize[..., CallerLoop] | None = None

    def run(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work()` to its end. Raises RuntimeError in a running loop, in a forked process, and when closed."""
        self._check()
        with self._lock:
            if self._end is None:
                self._end = weakref.finalize(self, _end_unclosed, self._loop, self._process_id, self._owner)
            task = self._loop.create_task(work())
            try:
                return self._loop.run_until_complete(task)
            except BaseException:
                # Ctrl-C: what was begun must not continue with the next call.
                if not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        self._loop.run_until_complete(task)
                raise

    def _check(self) -> None:
        self._check_usable()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise RuntimeError(
            "this client blocks, and an event loop runs in this thread; use odradek.classic.aio there"
        )

    def close(self) -> None:
        """Close the loop. In a forked process it is left to the parent."""
        if self._end is not None:
            self._end.detach()
        if not self.is_closed:
            self._loop.close()


def warn_unclosed(owner: str) -> None:
    """Say that an owner was neither closed nor used in a `with` statement."""
    warnings.warn(f"{owner}; call close(), or use a with statement", ResourceWarning, stacklevel=3)


def _end_unclosed(loop: asyncio.AbstractEventLoop, process_id: int, owner: str) -> None:
    if loop.is_closed() or os.getpid() != process_id:
        return
    try:
        warn_unclosed(f"{owner} was not closed")
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        if tasks and asyncio._get_running_loop() is None:
            with contextlib.suppress(Exception):
                loop.run_until_complete(asyncio.wait(tasks, timeout=_END_SECONDS_MAX))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of its sockets: the owner was named
            loop.close()


class EngineThread(_OwnLoop):
    """A loop in a daemon thread, for clients that work while their program does something else. A call costs about
    0.1 ms. Several threads may call: each call is a task of the loop.

    `closed_error` is raised for a call after the end, and for one that waits when `close` comes.
    """

    def __init__(self, name: str, *, closed_error: type[Exception] = RuntimeError) -> None:
        super().__init__()
        self._closed_error = closed_error
        self._submitting = threading.Lock()
        self._is_ending = False
        self._ending: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    @property
    def is_closed(self) -> bool:
        return self._is_ending or super().is_closed

    def call(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work()` on the loop, and wait for it. Raises RuntimeError after a fork and on the loop's own thread, and
        `closed_error` after `close`. Ctrl-C cancels the work, and waits until it has ended.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("this call would wait for itself: it was made on the client's own thread")
        waiting: _Call[T] = _Call(self._loop, work)
        with self._submitting:
            self._check_usable()
            self._loop.call_soon_threadsafe(waiting.start)
        try:
            waiting.wait()
        except BaseException:
            waiting.cancel()
            raise
        failure = waiting.failure
        if failure is None:
            return waiting.result
        if isinstance(failure, asyncio.CancelledError):
            raise self._closed_error("the client was closed while this call waited") from None
        raise failure

    def read(self, work: Callable[[], T]) -> T:
        """The result of `work()`, which the loop's thread computes between two turns. After the end nothing else uses
        what it reads, and it runs at once.
        """
        if self.is_closed:
            return work()

        async def in_turn() -> T:
            return work()

        return self.call(in_turn)

    def _check_usable(self) -> None:
        if self._is_ending and os.getpid() == self._process_id:
            raise self._closed_error("this client is closed; make another")
        super()._check_usable()

    def close(self, last: Callable[[], Coroutine[object, None, None]] | None = None) -> None:
        """Do `last`, cancel what still runs, and end the loop and its thread."""
        if os.getpid() != self._process_id:
            return  # a thread of the parent may have held the lock when it forked
        with self._submitting:
            if self.is_closed:
                return
            self._is_ending = True
            self._loop.call_soon_threadsafe(self._begin_end, last)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _begin_end(self, last: Callable[[], Coroutine[object, None, None]] | None) -> None:
        self._ending = self._loop.create_task(self._end(last), name="end")
        self._ending.add_done_callback(lambda _: self._loop.stop())

    async def _end(self, last: Callable[[], Coroutine[object, None, None]] | None) -> None:
        own = asyncio.current_task()
        try:
            if last is not None:
                async with asyncio.timeout(BLOCKING_END_SECONDS_MAX):
                    await last()
        except Exception as failure:
            logger.warning("a client ends, and what it still had to do failed: %s", failure)
        left = [task for task in asyncio.all_tasks() if task is not own]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=BLOCKING_END_SECONDS_MAX)
        await self._loop.shutdown_asyncgens()


class _Call(Generic[T]):
    """One call from another thread: a task of the loop, and what its caller waits for."""

    result: T

    def __init__(
        self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[object, None, T]]
    ) -> None:
        self._loop = loop
        self._work = work
        self._ended = threading.Event()
        self._task: asyncio.Task[T] | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin the task; the loop's thread does."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end)

    async def _run(self) -> T:
        return await self._work()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.failure = asyncio.CancelledError()
        elif (failure := task.exception()) is not None:
            self.failure = _for_caller(failure)
        else:
            self.result = task.result()
        self._ended.set()

    def wait(self) -> None:
        """Wait for the end of the task, in slices."""
        while not self._ended.wait(_SLICE_SECONDS):
            if self._loop.is_closed():  # by a callback of the program that ended the loop's thread
                self.failure = self.failure or asyncio.CancelledError()
                return

    def cancel(self) -> None:
        """Cancel the task, and wait until it has ended: what was begun must not continue beside the next call."""
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._cancel_task)
            self._ended.wait(BLOCKING_END_SECONDS_MAX)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _for_caller(failure: BaseException) -> BaseException:
    """The error for one caller. One error may be the reason of several calls, as that of a batch is of its records.
    Each caller gets a copy, so that its traceback has no lines of another call. It is made on the loop's thread.
    """
    if not isinstance(failure, OdradekError):
        return failure
    own = copy.copy(failure)
    own.__cause__, own.__context__ = failure.__cause__, failure.__context__
    own.__suppress_context__ = failure.__suppress_context__
    own.__traceback__, failure.__traceback__ = failure.__traceback__, None
    return own
