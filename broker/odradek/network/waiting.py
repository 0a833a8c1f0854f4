"""How the requests of a connection wait: what a request that is answered at once never enters."""

from __future__ import annotations

from odradek.foundation.limits import REQUESTS_PER_TURN_MAX
from odradek.network.ending import EndingConnection
from odradek.network.request_turns import RequestTurns


class WaitingConnection(EndingConnection):
    """The part of `inbound.InboundConnection` that answers, in its turns, what was received before."""

    __slots__ = (
        "_frames_bytes",
        "_is_reading_paused",
        "_is_scheduled",
        "_is_short",
        "_pending_bytes",
        "_turns",
    )

    _frames_bytes: int
    _is_reading_paused: bool
    _is_scheduled: bool
    _is_short: bool
    _pending_bytes: int
    _turns: RequestTurns

    def _account(self, *, is_next_request: bool = False) -> None:
        raise NotImplementedError

    def _answer(self, frames: list[memoryview]) -> None:
        raise NotImplementedError

    def _is_blocked(self) -> bool:
        raise NotImplementedError

    def _schedule(self) -> None:
        """Answer, in this connection's turn, frames that nothing else delays."""
        if self._frames and not self._is_scheduled and not self._is_blocked():
            self._is_scheduled = True
            self._turns.wait(self)

    def take_turn(self) -> None:
        self._is_scheduled = False
        if not self._is_blocked():
            self._continue()

    def _continue(self) -> None:
        """Answer frames that waited, or read again when none are left."""
        waiting = self._frames
        if waiting:
            if len(waiting) <= REQUESTS_PER_TURN_MAX:
                frames = list(waiting)
                waiting.clear()
            else:
                frames = [waiting.popleft() for _ in range(REQUESTS_PER_TURN_MAX)]
            self._answer(frames)
        if not waiting and self._reader.has_more and not self._is_closing:
            waiting.extend(self._reader.more())
            self._schedule()
        self._account()
        if waiting or self._is_blocked() or self._is_short:
            return
        if self._reader.failure is not None:
            self._fail(self._reader.failure)
        elif self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def is_receiving(self) -> bool:
        return self._reader.bytes_held() > 0 and not self._frames and not self._pending_bytes

    def read_again(self) -> None:
        self._is_short = False
        self._resume()
