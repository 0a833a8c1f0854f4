"""An event loop whose time is virtual: when nothing is ready it jumps to the next timer, and an hour takes
no time.

When nothing is ready and no timer is set, nothing can ever happen again: that raises DeadlockError with the
tasks that wait, where a real loop would hang. Work for executors is done at once on the loop, so that a run
is repeatable.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar


class DeadlockError(AssertionError):
    """Every task waits, and nothing is left that could wake one."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` starts at `start` seconds and moves only when the loop would sleep."""

    def __init__(self, *, start: float = 1_000.0) -> None:
        self._now = start
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Called by the selector instead of sleeping."""
        self._now += seconds

    def run_in_executor(  # type: ignore[override]  # the stub's signature is the same, with a variadic type
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run `func` in the next turn, on the loop."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as failure:
                future.set_exception(failure)
            else:
                future.set_result(result)

        self.call_soon(work)
        return future


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events:
            return events
        if timeout is None:
            waiting = "\n".join(f"  {task!r}" for task in asyncio.all_tasks(self._loop))
            raise DeadlockError(f"every task waits and no timer is set:\n{waiting}")
        if timeout > 0:
            self._loop.jump(timeout)
        return events


class LoopClock:
    """A clock (`foundation.clock.Clock`) that follows a loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, wall_start_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._wall_start_ms = wall_start_ms - round(loop.time() * 1000)

    def shift(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back with a negative number; timers do not notice."""
        self._wall_start_ms += milliseconds

    def wall_ms(self) -> int:
        return self._wall_start_ms + round(self._loop.time() * 1000)

    def monotonic_seconds(self) -> float:
        return self._loop.time()


Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
