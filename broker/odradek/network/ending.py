"""How a connection ends, and how it is paused for a quota: what a request on its way never enters."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.connection import Connection, log_failure
from odradek.network.pending import QueuedAnswer
from odradek.network.request_memory import RequestMemory
from odradek.network.sendfile import Unsent
from odradek.wire.protocol.framing import FrameReader

if TYPE_CHECKING:
    from odradek.network.muting import Mute


class EndingConnection(Connection):
    """The part of `inbound.InboundConnection` that ends or pauses it."""

    __slots__ = (
        "_answers",
        "_frames",
        "_held",
        "_holds",
        "_is_closing",
        "_is_dispatching",
        "_lines",
        "_memory",
        "_mute",
        "_out",
        "_reader",
        "_transport",
        "is_lost",
    )

    _answers: deque[QueuedAnswer]
    _frames: deque[memoryview]
    _held: int
    _holds: int
    _is_closing: bool
    _is_dispatching: bool
    _lines: RateLimitedLog
    _memory: RequestMemory
    _mute: Mute | None
    _out: deque[Unsent]
    _reader: FrameReader
    # None until the connection is made.
    _transport: asyncio.Transport
    is_lost: bool

    def _close_when_done(self) -> None:
        raise NotImplementedError

    def _pause_reading(self) -> None:
        raise NotImplementedError

    def _resume(self) -> None:
        raise NotImplementedError

    def is_receiving(self) -> bool:
        raise NotImplementedError

    def read_again(self) -> None:
        raise NotImplementedError

    def mute(self, milliseconds: int, still_due_ms: Callable[[], int]) -> None:
        if self._mute is None:
            from odradek.network.muting import Mute

            self._mute = Mute(self._transport, self._unmuted)
            self._holds += 1
            self._pause_reading()
        self._mute.extend(milliseconds, still_due_ms)

    def _unmuted(self, is_peer_gone: bool) -> None:
        self._mute = None
        if is_peer_gone:
            self.abort()
        self.release()

    def is_waiting_for_handlers(self) -> bool:
        """Whether a request is under way, or a mute: such a connection is not idle, however quiet it is."""
        return bool(self._answers) or self._mute is not None

    def close(self) -> None:
        """Close after all due answers are sent; requests that are not dispatched yet are dropped."""
        if not self._is_closing:
            self._pause_reading()
            self._is_closing = True
            self._frames.clear()
        self._close_when_done()

    def abort(self) -> None:
        """Close at once; what is unsent is lost."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, failure: BaseException) -> None:
        """End this connection because of a wrong frame or a failed handler. Written answers are still sent."""
        if self.is_lost:
            return
        self._is_closing = True
        log_failure(self, failure, self._lines)
        self._drop()
        self._transport.close()

    def _drop(self) -> None:
        """Drop received frames and queued answers. Pending answers are cancelled; tasks run to their end."""
        self._frames.clear()
        self._reader.drop()
        if self._held:
            self._held = 0
            self._memory.forget(self)
        self._out.clear()
        answers, self._answers = self._answers, deque()
        for queued in answers:
            if queued.pending is not None:
                queued.pending.cancel()

    def give_up(self, failure: Exception) -> None:
        self._fail(failure)
        self.abort()
