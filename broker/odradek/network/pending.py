"""A pending answer, whose one reader is the connection.

Its owner settles it (`settle`, `fail`), or its work does: a coroutine or a future. A coroutine runs from `start` on, as
a task of the connection. The handler and the dispatcher add the steps that make a frame of the result (`then`).

A future's callbacks run one turn of the loop after its result is set; the callbacks here run at once. So the owner
settles only from a callback of the loop. Within a request of another connection it calls `settle_soon` instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from odradek.foundation.tasks import TaskOwner
from odradek.wire.protocol.frames import Frame

T = TypeVar("T")
U = TypeVar("U")

_UNSETTLED: Final = object()
_CANCELLED: Final = object()


class Pending(Generic[T]):
    """Settled once, with a value or with an error, unless it is cancelled first."""

    __slots__ = ("_callbacks", "_error", "_on_cancel", "_steps", "_value", "_work")

    def __init__(self, work: Awaitable[T] | None = None) -> None:
        """With `work`, a coroutine or a future, the answer is the outcome of that work."""
        self._value: object = _UNSETTLED
        self._error: Exception | None = None
        self._steps: list[tuple[Callable[[Any], object], Callable[[Exception], object] | None]] = []
        self._callbacks: list[Callable[[Pending[T]], None]] = []
        self._on_cancel: Callable[[], None] | None = None
        self._work: Awaitable[object] | None = work
        if isinstance(work, asyncio.Future):
            work.add_done_callback(self._future_done)

    def then(
        self, respond: Callable[[T], U], *, failed: Callable[[Exception], U] | None = None
    ) -> Pending[U]:
        """This answer, once `respond` has made another of its value, or `failed` of its error.

        An exception that either raises is the error of the answer. A cancelled answer passes through neither.
        """
        if self._value is _UNSETTLED:
            self._steps.append((respond, failed))
        elif self._value is not _CANCELLED:
            self._value, self._error = _run_step(respond, failed, self._value, self._error)
        # `cast` is a call, for every answer.
        return self  # type: ignore[return-value]

    def time_steps(self, note: Callable[[float], None], *, seconds_max: float) -> None:
        """Call `note` with the time of each step of the coroutine that takes longer than `seconds_max`."""
        work = self._work
        if work is not None and isinstance(work, Coroutine):
            self._work = _Timed(work, note, seconds_max)

    def run_in(self, context: Context) -> None:
        """Run the coroutine that it was given, if any, with the variables of `context`."""
        work = self._work
        if work is not None and isinstance(work, Coroutine):
            self._work = _InContext(work, context)

    def start(self, tasks: TaskOwner, callback: Callable[[Pending[T]], None]) -> None:
        """Run the coroutine that it was given, if any, as a task of `tasks`, and do as `when_settled`."""
        work = self._work
        if work is not None and isinstance(work, Coroutine):
            self._work = None
            task = tasks.start(_outcome(work), name="request")
            # It is never cancelled, because it may be halfway through a change: it runs to its end.
            self._work = task
            task.add_done_callback(self._task_done)
        if self._value is _UNSETTLED:
            self._callbacks.append(callback)
        else:
            callback(self)

    def done(self) -> bool:
        """Whether it is over, by an answer or because it was cancelled."""
        return self._value is not _UNSETTLED

    def cancelled(self) -> bool:
        return self._value is _CANCELLED

    def result(self) -> T:
        """The answer, once it is settled. Raises its error, and asyncio.CancelledError where it was cancelled."""
        assert self._value is not _UNSETTLED, "there is no answer"
        if self._value is _CANCELLED:
            raise asyncio.CancelledError
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def when_settled(self, callback: Callable[[Pending[T]], None]) -> None:
        """Call it when this is settled or cancelled; at once if it is already."""
        if self._value is not _UNSETTLED:
            callback(self)
        else:
            self._callbacks.append(callback)

    async def wait_for_end(self) -> None:
        """Return when this is settled or cancelled, in a task that does not read the answer."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_settled(lambda _: None if over.done() else over.set_result(None))
        await over

    def when_cancelled(self, callback: Callable[[], None]) -> None:
        """Call it when this is cancelled before it is settled; the owner of the work has one such callback."""
        self._on_cancel = callback

    def settle(self, value: T) -> None:
        """Set the answer. Does nothing when one was set or it was cancelled."""
        self._end(value, None)

    def settle_soon(self, value: T) -> None:
        """The same in the loop's next turn."""
        asyncio.get_running_loop().call_soon(self._end, value, None)

    def fail(self, error: Exception) -> None:
        """Set an error instead of an answer. Does nothing when one was set or it was cancelled."""
        self._end(None, error)

    def cancel(self) -> None:
        """End the wait for the answer: its reader is gone. A running coroutine continues."""
        if isinstance(self._work, asyncio.Task):
            return
        if isinstance(self._work, asyncio.Future):
            self._work.cancel()
        self._end(_CANCELLED, None)

    def _end(self, value: object, error: Exception | None) -> None:
        if self._value is not _UNSETTLED:
            return
        self._value = value
        if value is _CANCELLED:
            if self._on_cancel is not None:
                self._on_cancel()
        else:
            for respond, failed in self._steps:
                value, error = _run_step(respond, failed, value, error)
            self._value = value
        self._on_cancel = None
        self._error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _future_done(self, future: asyncio.Future[T]) -> None:
        if future.cancelled():
            self._end(_CANCELLED, None)
            return
        failure = future.exception()
        if failure is None:
            self._end(future.result(), None)
        else:
            self._end(None, _as_exception(failure))

    def _task_done(self, task: asyncio.Task[tuple[T | None, Exception | None]]) -> None:
        if task.cancelled():
            self._end(_CANCELLED, None)
        else:
            self._end(*task.result())

    def __await__(self) -> Generator[object, None, T]:
        """Wait for the answer, in callers other than a connection."""
        work = self._work
        if isinstance(work, Coroutine):
            self._work = None
            self._end(*(yield from _outcome(work).__await__()))
        elif self._value is _UNSETTLED:
            try:
                yield from self.wait_for_end().__await__()
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def when_ready(
    result: T | Awaitable[T], respond: Callable[[T], U], *, failed: Callable[[Exception], U] | None = None
) -> U | Pending[U]:
    """`respond(result)`, or for an awaitable a pending answer that `respond` or `failed` completes."""
    if isinstance(result, Awaitable):
        return Pending(result).then(respond, failed=failed)
    return respond(result)


def _run_step(
    respond: Callable[[Any], object],
    failed: Callable[[Exception], object] | None,
    value: object,
    error: Exception | None,
) -> tuple[object, Exception | None]:
    try:
        if error is None:
            return respond(value), None
        return (None, error) if failed is None else (failed(error), None)
    except Exception as raised:
        return None, raised


class _Stepped(Coroutine[object, None, T]):
    """A coroutine that runs another one, step by step: each is part of one turn of the loop."""

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[object, None, T]) -> None:
        self._work = work

    def send(self, value: None) -> object:
        return self._run(self._work.send, value)

    def throw(self, *error: Any) -> object:
        return self._run(self._work.throw, *error)

    def _run(self, step: Callable[..., object], *given: object) -> object:
        return step(*given)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[object, None, T]:
        return self

    def __iter__(self) -> _Stepped[T]:
        return self

    def __next__(self) -> object:
        return self.send(None)


class _Timed(_Stepped[T]):
    """Its steps are timed."""

    __slots__ = ("_note", "_seconds_max")

    def __init__(
        self, work: Coroutine[object, None, T], note: Callable[[float], None], seconds_max: float
    ) -> None:
        super().__init__(work)
        self._note = note
        self._seconds_max = seconds_max

    def _run(self, step: Callable[..., object], *given: object) -> object:
        started = monotonic()
        try:
            return step(*given)
        finally:
            if (seconds := monotonic() - started) > self._seconds_max:
                self._note(seconds)


class _InContext(_Stepped[T]):
    """Its steps run with the variables of a context."""

    __slots__ = ("_context",)

    def __init__(self, work: Coroutine[object, None, T], context: Context) -> None:
        super().__init__(work)
        self._context = context

    def _run(self, step: Callable[..., object], *given: object) -> object:
        return self._context.run(step, *given)


async def _outcome(work: Awaitable[T]) -> tuple[T | None, Exception | None]:
    """(value, error): a task of a connection that fails is no failure of the process."""
    try:
        return await work, None
    except Exception as error:
        return None, error


def _as_exception(failure: BaseException) -> Exception:
    return failure if isinstance(failure, Exception) else RuntimeError(repr(failure))


class QueuedAnswer:
    """An answer of a connection that waits: for its own result, or for those of earlier requests.

    `frame` is the answer once it is ready, of `bytes` in memory; None when none is due. `request_bytes` are those of
    its request that count until then, and `head` is how it begins.
    """

    __slots__ = ("bytes", "frame", "head", "is_ready", "pending", "request_bytes")

    def __init__(self) -> None:
        self.pending: Pending[Frame | None] | None = None
        self.frame: Frame | None = None
        self.is_ready = False
        self.bytes = 0
        self.request_bytes = 0
        self.head = b""

    def make_ready(self, frame: Frame | None) -> None:
        self.frame = frame
        self.is_ready = True
        self.bytes = _bytes_in_memory(frame)


def _bytes_in_memory(frame: Frame | None) -> int:
    """The bytes of an answer, without slices of files."""
    if frame is None:
        return 0
    if isinstance(frame, list):
        return sum(len(part) for part in frame if isinstance(part, bytes | bytearray | memoryview))
    return len(frame)
