"""What a handler sees of the connection that a request came by, and what it may answer with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.protocol.frames import Frame
from odradek.transport.pending import Pending

# A pending answer, like one at once, may be None: the request gets none.
Answer = Frame | Pending[Frame | None] | None


class Connection:
    """One client connection as handlers know it; also built by tests, without a socket.

    Its counters are plain integers that a scrape reads.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "client_id",
        "client_software",
        "id",
        "listener_name",
        "local",
        "peer",
        "requests",
        "state",
    )

    def __init__(
        self,
        *,
        id: int,
        listener_name: str,
        peer: tuple[str, int] = ("", 0),
        local: tuple[str, int] = ("", 0),
    ) -> None:
        self.id = id
        self.listener_name = listener_name
        self.peer = peer
        self.local = local
        self.client_id = ""
        self.client_software: tuple[str, str] | None = None
        """(name, version) as ApiVersions told, or None."""
        self.state: dict[str, Any] = {}
        """What handlers keep for as long as the connection lives, by a name of their own."""
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def close(self) -> None:
        """Close after the answers that are already due have been sent. Does nothing when closed."""

    def __repr__(self) -> str:
        return f"connection {self.id} of {self.peer[0]}:{self.peer[1]} to {self.listener_name}"


# Called with each frame, without its size. The memory beneath a frame is never used again by the transport.
# An exception closes the connection: errors that a client should see are answers.
Dispatch = Callable[[Connection, memoryview], Answer]
