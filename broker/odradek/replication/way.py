"""How requests reach other brokers, handed to whoever asks them, so that nothing of following knows of sockets.

`peers` has the connections behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from odradek.protocol.api import ApiKey


class Way(Protocol):
    """How requests reach brokers. Both raise OSError, RequestError or FrameError."""

    async def send(self, broker_id: int, api: ApiKey, version: int, message: Any) -> Any:
        """The answer's message."""
        ...

    async def send_frame(self, broker_id: int, pack: Callable[[int], bytes]) -> memoryview:
        """The answer to the frame that `pack(correlation id)` makes, from its correlation id on."""
        ...

    def interrupt(self, broker_id: int) -> None:
        """Requests that wait for their answers, if there are any, may raise OSError at once."""
        ...
