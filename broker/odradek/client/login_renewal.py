"""Renews the login of a client's connection while it is in use (KIP-368).

As with Kafka's clients, a login is renewed ahead of the first request after most of its life. A connection without
requests is left alone: the broker takes the renewal also after the end. Requests under way are answered first, and
requests that come meanwhile wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from odradek.protocol import codec, messages
from odradek.protocol.api import ApiKey

# Sends a request in a version, and gives its answer.
Ask = Callable[..., Awaitable[Any]]
# Logs in, and gives the seconds until the next time, or None.
LogIn = Callable[[Ask], Awaitable[float | None]]


class Asked(Protocol):
    """A connection in use, as `exchange.Exchange` is one."""

    def next_correlation_id(self) -> int: ...

    async def ask_at_once(self, frame: bytes, correlation_id: int) -> memoryview: ...

    def break_off(self, failure: Exception) -> None: ...


class LoginRenewal:
    """The login of one connection."""

    def __init__(self, log_in: LogIn, after_seconds: float) -> None:
        self._log_in = log_in
        self._due_at: float | None = asyncio.get_running_loop().time() + after_seconds
        self._lock = asyncio.Lock()

    async def renew_when_due(self, exchange: Asked) -> None:
        """Return when requests may be sent. Raises ConnectionError when the login fails, and closes the connection."""
        async with self._lock:
            now = asyncio.get_running_loop().time
            if self._due_at is None or now() < self._due_at:
                return
            try:
                after_seconds = await self._log_in(_asking(exchange))
            except BaseException as failure:
                # A login that stopped half-way leaves a connection on which nothing else may be sent.
                reason = failure if isinstance(failure, ConnectionError) else None
                exchange.break_off(reason or ConnectionResetError("the login was not renewed"))
                raise
            self._due_at = None if after_seconds is None else now() + after_seconds


def _asking(exchange: Asked) -> Ask:
    async def ask(api: ApiKey, version: int, **fields: object) -> Any:
        number = exchange.next_correlation_id()
        message = messages.request(api, version, **fields)
        frame = codec.encode_request(api, version, number, None, message)
        return codec.decode_response(api, version, await exchange.ask_at_once(frame, number))[1]

    return ask
