"""An attempt to connect to a peer, which another task can cancel.

A dead host answers nothing, so an attempt to connect to it takes its whole timeout. A task that learns of the peer's
new address meanwhile must not wait for that.
"""

from __future__ import annotations

import asyncio

from odradek.transport.network import Network
from odradek.transport.outbound import OutboundConnection


class ConnectAttempt:
    """At most one attempt at a time."""

    __slots__ = ("_attempt",)

    def __init__(self) -> None:
        self._attempt: asyncio.Task[OutboundConnection] | None = None

    async def connect(
        self, network: Network, *, host: str, port: int, client_id: str, timeout_ms: int
    ) -> OutboundConnection:
        """Connect. Raises OSError, TimeoutError after `timeout_ms`, ConnectionError once it is cancelled."""
        assert self._attempt is None, "one attempt at a time"
        attempt = self._attempt = asyncio.get_running_loop().create_task(
            OutboundConnection.connect(
                network, host=host, port=port, client_id=client_id, timeout_ms=timeout_ms
            ),
            name=f"connect/{host}:{port}",
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
            raise ConnectionError(f"the attempt to connect to {host}:{port} was cancelled")
        return attempt.result()

    def cancel(self) -> None:
        """Make the attempt under way, if there is one, raise ConnectionError."""
        if self._attempt is not None:
            self._attempt.cancel()


def _close(attempt: asyncio.Task[OutboundConnection]) -> None:
    """Close the connection of an attempt that succeeded after its caller was cancelled."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().interrupt()
