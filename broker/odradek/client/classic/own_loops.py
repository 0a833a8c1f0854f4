"""The event loops of clients that block: one in the thread of its caller, and one in a thread of its own.

The synchronous face of a client without background work needs no other thread: a call runs the same coroutine that the
asyncio face has. So it costs one turn of a loop, and no message between threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from odradek.foundation.event_loop import new_event_loop

T = TypeVar("T")

# A wait in slices, so that Ctrl-C reaches it.
_SLICE_SECONDS: Final = 0.2


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
    """A loop that runs only while a call lasts. Several threads may use it; their calls wait for one another."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def run(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work()` to its end. Raises RuntimeError in a running loop, in a forked process, and when closed."""
        self._check()
        with self._lock:
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
        if not self.is_closed:
            self._loop.close()


class EngineThread(_OwnLoop):
    """A loop in a daemon thread, for clients that work while their program does something else. A call costs about
    0.1 ms, so calls are for opening, closing and committing.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work()` on the loop, and wait for it. Raises RuntimeError after a fork, after `close`, on the loop."""
        self._check_usable()
        if threading.current_thread() is self._thread:
            raise RuntimeError("this call would wait for itself: it was made on the client's own thread")
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        while True:
            try:
                return future.result(_SLICE_SECONDS)
            except concurrent.futures.TimeoutError:
                if future.done():
                    return future.result()
            except BaseException:
                future.cancel()
                raise

    def close(self) -> None:
        """End the loop and its thread."""
        if not self.is_closed:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
