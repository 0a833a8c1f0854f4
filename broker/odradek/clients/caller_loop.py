"""An event loop in the thread of its caller, which runs only while a call lasts.

The synchronous face of a client without background work needs no other thread: a call runs the same coroutine that the
asyncio face has. So it costs one turn of a loop, and no message between threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class CallerLoop:
    """Several threads may use it; their calls wait for one another."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._lock = threading.Lock()
        self._process_id = os.getpid()

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
        if os.getpid() != self._process_id:
            raise RuntimeError("this client was made before a fork; make another in the new process")
        if self._loop.is_closed():
            raise RuntimeError("this client is closed; make another")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise RuntimeError(
            "this client blocks, and an event loop runs in this thread; use odradek.clients.aio there"
        )

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing to close: it was done, or is left to the parent of a forked process."""
        return self._loop.is_closed() or os.getpid() != self._process_id

    def close(self) -> None:
        """Close the loop. In a forked process it is left to the parent."""
        if os.getpid() == self._process_id and not self._loop.is_closed():
            self._loop.close()
