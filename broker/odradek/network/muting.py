"""A pause of one connection: nothing is read from it, and frames that are already read wait (KIP-219).

The pause is taken in steps. After each one it may be over sooner than it seemed, because a quota was raised or removed.
A peer that has gone is also found then, because a connection that is not read does not report its end.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
import termios
from collections.abc import Callable
from typing import Any, Final

from odradek.foundation.limits import MUTE_STEP_SECONDS

_NOTHING_UNREAD: Final = struct.pack("i", 0)


class Mute:
    """The pause of one connection; `ended(is_peer_gone)` is called once, at its end."""

    __slots__ = ("_ended", "_loop", "_still_due_ms", "_timer", "_transport", "_until")

    def __init__(self, transport: Any, ended: Callable[[bool], None]) -> None:
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


def _is_gone(transport: Any) -> bool:
    """Whether the peer has closed, and has sent nothing that is still to be read."""
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
