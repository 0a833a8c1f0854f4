"""How a connection ends, and how it is paused for a quota: what a request on its way never enters."""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.foundation.limits import MUTE_STEP_SECONDS
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.connection import Connection, log_failure
from odradek.network.connection_states import CLOSED, LOST, OPEN, Life
from odradek.network.pending import QueuedAnswer
from odradek.network.request_memory import RequestMemory
from odradek.network.sendfile import Unsent
from odradek.wire.protocol.framing import FrameReader

_NOTHING_UNREAD: Final = struct.pack("i", 0)


class EndingConnection(Connection):
    """The part of `inbound.InboundConnection` that ends or pauses it."""

    __slots__ = (
        "_answers",
        "_frames",
        "_held",
        "_holds",
        "_is_dispatching",
        "_life",
        "_lines",
        "_memory",
        "_mute",
        "_out",
        "_reader",
        "_transport",
    )

    _answers: deque[QueuedAnswer]
    _frames: deque[memoryview]
    _held: int
    _holds: int
    _is_dispatching: bool
    _life: Life
    _lines: RateLimitedLog
    _memory: RequestMemory
    _mute: Mute | None
    _out: deque[Unsent]
    _reader: FrameReader
    # None until the connection is made.
    _transport: asyncio.Transport

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._life is LOST

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
            self._mute = Mute(self._transport, self._end_mute)
            self._holds += 1
            self._pause_reading()
        self._mute.extend(milliseconds, still_due_ms)

    def _end_mute(self, is_peer_gone: bool) -> None:
        self._mute = None
        if is_peer_gone:
            self.abort()
        self.release()

    def is_waiting_for_handlers(self) -> bool:
        """Whether a request is under way, or a mute: such a connection is not idle, however quiet it is."""
        return bool(self._answers) or self._mute is not None

    def close(self) -> None:
        """Close after all due answers are sent; requests that are not dispatched yet are dropped."""
        if self._life is OPEN:
            self._pause_reading()
            self._life = CLOSED[self._life]
            self._frames.clear()
        self._close_when_done()

    def abort(self) -> None:
        """Close at once; what is unsent is lost."""
        self._life = CLOSED[self._life]
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, failure: BaseException) -> None:
        """End this connection because of a wrong frame or a failed handler. Written answers are still sent."""
        if self._life is LOST:
            return
        self._life = CLOSED[self._life]
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


class Mute:
    """A pause of one connection: nothing is read from it, and frames that are already read wait (KIP-219).

    The pause is taken in steps. After each one it may be over sooner than it seemed, because a quota was raised or
    removed. A peer that has gone is also found then, because a connection that is not read does not report its end.

    `ended(is_peer_gone)` is called once, at its end.
    """

    __slots__ = ("_ended", "_loop", "_still_due_ms", "_timer", "_transport", "_until")

    def __init__(self, transport: asyncio.Transport, ended: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._ended = ended
        self._until = 0.0
        self._still_due_ms: Callable[[], int]
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, milliseconds: int, still_due_ms: Callable[[], int]) -> None:
        """Pause for this time from now; a pause that ends later stays. `still_due_ms` may end it sooner."""
        until = self._loop.time() + milliseconds / 1000
        if until <= self._until:
            return
        self._until = until
        self._still_due_ms = still_due_ms
        self._begin_step(milliseconds / 1000)

    def cancel(self) -> None:
        """End without a call: the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_step(self, rest_seconds: float) -> None:
        self.cancel()
        self._timer = self._loop.call_later(min(rest_seconds, MUTE_STEP_SECONDS), self._end_step)

    def _end_step(self) -> None:
        self._timer = None
        rest_seconds = min(self._until - self._loop.time(), self._still_due_ms() / 1000)
        is_gone = _is_gone(self._transport)
        if rest_seconds > 0 and not is_gone:
            self._begin_step(rest_seconds)
        else:
            self._ended(is_gone)


def _is_gone(transport: asyncio.Transport) -> bool:
    """Whether the peer has closed, and has sent nothing that is still to be read."""
    import termios  # no start needs it

    opened = transport.get_extra_info("socket")
    if opened is None or opened.fileno() < 0:
        return False
    poll = select.poll()
    # The end of what a peer sends is readable too, and is all there is when nothing is unread. So no system's own event
    # for it is needed.
    poll.register(opened.fileno(), select.POLLIN)
    found = poll.poll(0)
    if not found:
        return False
    if found[0][1] & select.POLLERR:
        return True
    return fcntl.ioctl(opened.fileno(), termios.FIONREAD, _NOTHING_UNREAD) == _NOTHING_UNREAD
