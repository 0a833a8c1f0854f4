"""An event loop whose time is virtual: when nothing is ready it jumps to the next timer, and an hour takes
no time.

When nothing is ready and no timer is set, nothing can ever happen again. A real loop would hang; this one raises
DeadlockError with the tasks that wait. Work for executors is done at once on the loop, so that a run is repeatable.
Callbacks run in the order in which they became ready, timers of one time in the order they were set.

A simulation is little but turns of this loop, so it has its own turn, handles and list of timers. They cost a third of
asyncio's: they ask no selector unless a real socket is watched, and compare no objects.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from heapq import heappop, heappush
from typing import Any, TypeVar

# What is this close to its time is due.
_RESOLUTION_SECONDS = 1e-9
# Tasks that are cancelled after Ctrl-C or a time limit need few. The interrupt may have come between two steps of one.
_JUMPS_AFTER_INTERRUPT = 10_000
# A loop that watches nothing has the reading end of its own pipe.
_OWN_FILES = 1


class DeadlockError(AssertionError):
    """Every task waits, and nothing is left that could wake one."""


class _Handle:
    """What is to be run once; it has what callers use of `asyncio.Handle` and `asyncio.TimerHandle`."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        self._callback: Callable[..., Any] | None = callback
        self._args: tuple[Any, ...] | None = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._when = 0.0

    def cancel(self) -> None:
        # What it holds is released now, not when its time is due.
        self._cancelled = True
        self._callback = self._args = None

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` starts at `start` seconds and moves only when the loop would sleep."""

    _ready: deque[_Handle]
    _stopping: bool

    def __init__(self, *, start: float = 1_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _Handle]] = []
        self._timers_set = 0
        self._jumps_left: int | None = None
        self.work_seconds: Callable[[], float] | None = None
        """How long work for executors takes from now on; None: no time."""
        super().__init__()

    def time(self) -> float:
        return self._now

    def stand_still(self, seconds: float) -> None:
        """Time passes and nothing runs, as when the process is stopped."""
        self._now += seconds

    # --- what is to be run -------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]  # a handle of our own
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def _call_soon(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> _Handle:
        """What `call_soon_threadsafe` calls."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        handle = _Handle(callback, args, context)
        handle._when = when
        self._timers_set += 1
        heappush(self._timers, (when, self._timers_set, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # the stub's signature is the same, with a variadic type
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run `func` in the next turn, or after `work_seconds`, on the loop."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as failure:
                future.set_exception(failure)
            else:
                future.set_result(result)

        if self.work_seconds is None:
            self.call_soon(work)
        else:
            self.call_later(self.work_seconds(), work)
        return future

    # --- running it --------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Turns until the loop is to stop; called by `run_forever`."""
        try:
            self._run_turns()
        except (SystemExit, KeyboardInterrupt):
            self._jumps_left = _JUMPS_AFTER_INTERRUPT
            raise

    def _run_turns(self) -> None:
        ready, timers = self._ready, self._timers
        files = self._selector._fd_to_key  # type: ignore[attr-defined]  # its own dictionary: asked at every turn
        is_watching = len(files) > _OWN_FILES
        while True:
            if not ready:
                while timers and timers[0][2]._cancelled:
                    heappop(timers)
                if timers:
                    self._now = max(self._now, timers[0][0])
                    if self._jumps_left is not None:
                        self._count_jump()
                elif not self._stopping:
                    self._look_at_files()
                    if not ready:
                        waiting = "\n".join(f"  {task!r}" for task in asyncio.all_tasks(self))
                        raise DeadlockError(f"every task waits and no timer is set:\n{waiting}")
            if is_watching:
                self._look_at_files()
            due = self._now + _RESOLUTION_SECONDS
            while timers and timers[0][0] <= due:
                handle = heappop(timers)[2]
                if not handle._cancelled:
                    ready.append(handle)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type,misc]
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as failure:
                        self._report_failure(handle, failure)
            if self._stopping:
                return
            is_watching = len(files) > _OWN_FILES

    def _count_jump(self) -> None:
        assert self._jumps_left is not None
        self._jumps_left -= 1
        if not self._jumps_left:
            raise RuntimeError("an interrupt came between two steps, and tasks that lost one never end")

    def _look_at_files(self) -> None:
        """Run what waits for sockets that are really there."""
        self._process_events(self._selector.select(0))  # type: ignore[attr-defined]

    def _report_failure(self, handle: _Handle, failure: BaseException) -> None:
        self.call_exception_handler(
            {"message": f"{handle._callback!r} failed", "exception": failure, "loop": self}
        )


WALL_MS_AT_START = 1_700_000_000_000


class LoopClock:
    """A clock (`foundation.clock.Clock`) that follows the time of the loop that runs when it is made."""

    def __init__(self, *, wall_start_ms: int = WALL_MS_AT_START) -> None:
        self._loop = asyncio.get_running_loop()
        self._wall_start_ms = wall_start_ms - round(self._loop.time() * 1000)

    def shift(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back with a negative number; timers do not notice."""
        self._wall_start_ms += milliseconds

    def wall_ms(self) -> int:
        return self._wall_start_ms + round(self._loop.time() * 1000)

    def monotonic_seconds(self) -> float:
        return self._loop.time()


Result = TypeVar("Result")


# What the story that runs has started; None outside of one.
_to_stop: ContextVar[list[Callable[[], Awaitable[None]]] | None] = ContextVar("to_stop", default=None)


def stop_at_end(stop: Callable[[], Awaitable[None]]) -> None:
    """Await `stop` when the story that runs has passed, the last one first. A failed story shows its failure alone."""
    stops = _to_stop.get()
    if stops is not None:
        stops.append(stop)


async def to_the_end(story: Awaitable[Result]) -> Result:
    """The result of a story, once what it started has stopped."""
    stops: list[Callable[[], Awaitable[None]]] = []
    _to_stop.set(stops)
    result = await story
    while stops:
        await stops.pop()()
    return result


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` in virtual time, to the end of what the coroutine started."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(to_the_end(coroutine))
