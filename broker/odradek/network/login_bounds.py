"""The bounds of a client until it has logged in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.foundation.errors import OdradekError
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.framing import FrameReader


class LoginBounds(NamedTuple):
    """The size of its requests, and the time from its connection to the end of the login."""

    frame_bytes_max: int
    seconds_max: float


class PendingLogin:
    """Keeps a connection to the bounds until `end`."""

    __slots__ = ("_reader", "_size_max", "_timer")

    def __init__(
        self, bounds: LoginBounds, reader: FrameReader, *, on_late: Callable[[Exception], None]
    ) -> None:
        """`on_late` is called with the reason when the time is over."""
        self._reader = reader
        self._size_max = reader.size_max
        reader.size_max = bounds.frame_bytes_max
        late = OdradekError("the client did not log in in time")
        self._timer = asyncio.get_running_loop().call_later(bounds.seconds_max, on_late, late)

    def end(self) -> None:
        """Lift the bounds: the client has logged in, or is gone."""
        self._timer.cancel()
        self._reader.size_max = self._size_max
