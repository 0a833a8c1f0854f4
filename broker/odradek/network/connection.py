"""A client's connection as handlers see it, and the answers that they may give."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from odradek.foundation import words
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.pending import Pending
from odradek.wire.protocol.frames import Frame

logger = logging.getLogger(__name__)

# None, pending or not, means that the request gets no answer.
Answer = Frame | Pending[Frame | None] | None


class Connection:
    """One client connection as handlers see it. Tests build one without a socket.

    Its counters are plain integers that a scrape reads.
    """

    __slots__ = (
        "authorities",
        "bytes_in",
        "bytes_out",
        "client_id",
        "client_software",
        "id",
        "listener_name",
        "local",
        "lost_callbacks",
        "peer",
        "principal",
        "produce_allowance",
        "produce_client_id",
        "produce_right",
        "requests",
        "state",
        "waiting_since",
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
        self.principal = ANONYMOUS
        """Who the client is, as `User:alice`. Authentication sets it, before any other request is dispatched."""
        self.authorities: frozenset[bytes] | None = None
        """Whom the trust in the client's certificate rests on; None without a certificate."""
        self.client_software: tuple[str, str] | None = None
        """(name, version) from ApiVersions, or None."""
        self.state: dict[str, Any] = {}
        """State that handlers keep for the life of the connection, by a name that each chooses."""
        self.produce_allowance: Any = None
        """State of `broker.requests.throttling`, which it looks at for each Produce: what its client may use."""
        self.produce_client_id = ""
        """The client id with which that was found."""
        self.produce_right: Any = None
        """State of `broker.requests.rights`, likewise."""
        self.lost_callbacks: dict[str, Callable[[], None]] | None = None
        """What is called once the connection has ended, by a name that each caller chooses; None for nothing."""
        self.waiting_since = 0.0
        """Since when its received requests wait for their turn, in monotonic seconds; 0 while none waits."""
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def when_lost(self, name: str, callback: Callable[[], None]) -> None:
        """Call it once the connection has ended; it replaces one of the same name."""
        if self.lost_callbacks is None:
            self.lost_callbacks = {}
        self.lost_callbacks[name] = callback

    def report_lost(self) -> None:
        """Call what is to be called once the connection has ended (`when_lost`)."""
        callbacks, self.lost_callbacks = self.lost_callbacks, None
        for callback in (callbacks or {}).values():
            callback()

    def hold(self) -> None:
        """Dispatch no further request until `release`: what follows must not overtake one that waits."""

    def release(self) -> None:
        """Dispatch the requests that came since; once for each `hold`."""

    def mute(self, milliseconds: int, still_due_ms: Callable[[], int]) -> None:
        """Dispatch no further request for this time, and read none. Answers that are due are sent.

        `still_due_ms` is asked now and then for the rest, so that the pause ends early when its reason does.
        """

    def admit(self, principal: str) -> None:
        """Note that authentication is complete: the bounds of a login end."""
        self.principal = principal

    def close(self) -> None:
        """Close after the answers that are already due have been sent. Does nothing when closed."""

    def __repr__(self) -> str:
        return f"connection {self.id} of {self.peer[0]}:{self.peer[1]} to {self.listener_name}"


class SendWatch(Protocol):
    """Learns which answers took long until they were sent."""

    @property
    def slow_seconds(self) -> float: ...

    def note_slow_send(self, connection: Connection, head: bytes, seconds: float) -> None:
        """`head` is the beginning of the request: API, version and correlation id."""


# Called with each frame, without its size. The transport never reuses the memory of a frame.
# An exception closes the connection: errors that a client should see are answers.
Dispatch = Callable[[Connection, memoryview], Answer]


def log_failure(connection: Connection, failure: BaseException, lines: RateLimitedLog) -> None:
    """Log why the broker ends `connection`: bounded where a peer is the reason, with the trace where a handler is."""
    if isinstance(failure, ConnectionError):
        logger.debug("%r was left in the middle of an answer: %s", connection, failure)
    elif isinstance(failure, OdradekError | OSError):
        client = f" (client {connection.client_id!r})" if connection.client_id else ""
        requests = words.count(connection.requests, "request")
        lines.warning("%r%s is closed after %s: %s", connection, client, requests, failure)
    else:
        logger.error("%r is closed: a handler failed", connection, exc_info=failure)
