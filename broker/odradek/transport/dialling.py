"""Opens a connection to a peer in a way that somebody else can give up.

A host that died answers nothing at all, and an attempt to connect to it takes as long as it may. Whoever learns
meanwhile that the peer is elsewhere now must not wait for that.
"""

from __future__ import annotations

import asyncio

from odradek.transport.network import Network
from odradek.transport.outbound import OutboundConnection


class Dialling:
    """At most one attempt at a time."""

    __slots__ = ("_attempt",)

    def __init__(self) -> None:
        self._attempt: asyncio.Task[OutboundConnection] | None = None

    async def connect(
        self, network: Network, *, host: str, port: int, client_id: str, timeout_ms: int
    ) -> OutboundConnection:
        """Connect. Raises OSError, TimeoutError after `timeout_ms`, ConnectionError once it was given up."""
        assert self._attempt is None, "one attempt at a time"
        attempt = self._attempt = asyncio.get_running_loop().create_task(
            OutboundConnection.connect(
                network, host=host, port=port, client_id=client_id, timeout_ms=timeout_ms
            ),
            name=f"dialling/{host}:{port}",
        )
        try:
            await asyncio.wait({attempt})
        except asyncio.CancelledError:
            attempt.cancel()
            attempt.add_done_callback(_close)
            raise
        finally:
            self._attempt = None
        if attempt.cancelled():
            raise ConnectionError(f"the attempt to connect to {host}:{port} was given up")
        return attempt.result()

    def give_up(self) -> None:
        """Let the attempt under way, if there is one, raise ConnectionError."""
        if self._attempt is not None:
            self._attempt.cancel()


def _close(attempt: asyncio.Task[OutboundConnection]) -> None:
    """Nobody waits for it any more; it may have succeeded in its last moment."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().interrupt()
