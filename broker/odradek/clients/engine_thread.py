"""An event loop in a thread of its own, for clients that work while their program does something else."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from odradek.clients.caller_loop import new_loop

T = TypeVar("T")

# A wait in slices, so that Ctrl-C reaches it.
_SLICE_SECONDS: Final = 0.2


class EngineThread:
    """One daemon thread. A call costs about 0.1 ms, so calls are for opening, closing and committing."""

    def __init__(self, name: str) -> None:
        self._loop = new_loop()
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work()` on the loop, and wait for it. Raises RuntimeError after a fork, after `close`, on the loop."""
        if os.getpid() != self._process_id:
            raise RuntimeError("this client was made before a fork; make another in the new process")
        if threading.current_thread() is self._thread:
            raise RuntimeError("this call would wait for itself: it was made on the client's own thread")
        if self._loop.is_closed():
            raise RuntimeError("this client is closed; make another")
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
        if os.getpid() == self._process_id and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
