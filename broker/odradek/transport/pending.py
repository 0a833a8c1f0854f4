"""An answer that is not there yet, and its one reader, the connection: a future for the hot road.

The callbacks of a future run a turn of the loop after its result was set; here they run at once. So it is to be settled
only from where any handler could be called: from a callback of the loop, not from within a request of another
connection (`settle_soon` is for that).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Final

from odradek.transport.connection import Reply

_UNSETTLED: Final = object()
_GIVEN_UP: Final = object()


class PendingReply:
    """Settled once, with a frame or with None for no answer, unless it is given up first."""

    __slots__ = ("_callbacks", "_reply")

    def __init__(self) -> None:
        self._reply: Any = _UNSETTLED
        self._callbacks: list[Callable[[PendingReply], None]] = []

    def done(self) -> bool:
        """Whether it is over, by an answer or because it was given up."""
        return self._reply is not _UNSETTLED

    def cancelled(self) -> bool:
        return self._reply is _GIVEN_UP

    def result(self) -> Reply | None:
        """The answer; only after it was settled, and not given up."""
        assert self._reply is not _UNSETTLED and self._reply is not _GIVEN_UP, "there is no answer"
        return self._reply  # type: ignore[no-any-return]

    def when_settled(self, callback: Callable[[PendingReply], None]) -> None:
        """Call it when this is settled or given up; at once if it is already."""
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def settle(self, reply: Reply | None) -> None:
        """This is the answer. Does nothing when one was given or it was given up."""
        self._end(reply)

    def settle_soon(self, reply: Reply | None) -> None:
        """The same in the loop's next turn."""
        asyncio.get_running_loop().call_soon(self._end, reply)

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._end(_GIVEN_UP)

    def _end(self, outcome: Any) -> None:
        if self._reply is not _UNSETTLED:
            return
        self._reply = outcome
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Any, None, Reply | None]:
        """For callers that are no connection."""
        if not self.done():
            over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_settled(lambda _: None if over.done() else over.set_result(None))
            try:
                yield from over
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self.cancelled():
            raise asyncio.CancelledError
        return self.result()
