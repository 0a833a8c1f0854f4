"""Sends and receives frames: the socket side of a client's connection.

Kafka answers the requests of a connection in the order they were sent, so requests under way are a queue. The
correlation id only proves that both sides agree. A broken connection fails all requests, once, with the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from struct import Struct
from typing import Final, cast

from odradek.foundation.client_limits import CLIENT_REQUESTS_IN_FLIGHT_MAX, CLIENT_RESPONSE_BYTES_MAX
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import FrameReader
from odradek.wire.protocol.messages import AnyMessage

_correlation_id_at = Struct(">i").unpack_from
_CORRELATION_IDS: Final = 2**31
_FIRST_BYTES_KEPT: Final = 8
# Sends a request in a version, and gives its answer.
Ask = Callable[..., Awaitable[AnyMessage]]
# Logs in, and gives the seconds until the next time, or None.
LogIn = Callable[[Ask], Awaitable[float | None]]


class Exchange(asyncio.BufferedProtocol):
    """One socket. `Network.connect` makes it; it is unusable before it is connected."""

    def __init__(self) -> None:
        self._reader = FrameReader(CLIENT_RESPONSE_BYTES_MAX)
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._places = asyncio.Semaphore(CLIENT_REQUESTS_IN_FLIGHT_MAX)
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._failure: Exception | None = None
        self._correlation_id = -1
        self._renewal: LoginRenewal | None = None
        self.first_bytes = b""
        """The first few bytes received, to identify a peer that is not a Kafka broker."""

    # --- asyncio's side -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods, but are no subclass.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if len(self.first_bytes) < _FIRST_BYTES_KEPT:
            self.first_bytes += bytes(self._reader.get_buffer()[: min(nbytes, _FIRST_BYTES_KEPT)])
        for frame in self._reader.take_received(nbytes):
            self._answer(frame)
        if self._reader.failure is not None:
            self.break_off(self._reader.failure)

    def eof_received(self) -> bool:
        self.break_off(ConnectionResetError("the broker closed it"))
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.break_off(exc or ConnectionResetError("it was closed"))
        if not self._closed.done():
            self._closed.set_result(None)

    # --- our side -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether frames may be sent."""
        return self._failure is None and self._transport is not None

    @property
    def peer_certificate(self) -> Mapping[str, object] | None:
        """The broker's certificate, as `ssl.SSLSocket.getpeercert` gives it; None without TLS."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert()

    def next_correlation_id(self) -> int:
        """A new number for each request, from 0 on."""
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        return self._correlation_id

    def renew_login(self, log_in: LogIn, *, after_seconds: float) -> None:
        """Log in again with the first request after this time, ahead of it: no other may come between (KIP-368)."""
        self._renewal = LoginRenewal(log_in, after_seconds)

    async def ask(self, frame: bytes, correlation_id: int) -> memoryview:
        """Send a frame and wait for its answer. Raises ConnectionError when the connection breaks before."""
        async with self._places:
            if self._renewal is not None:
                await self._renewal.renew_when_due(self)
            return await self.ask_at_once(frame, correlation_id)

    async def ask_at_once(self, frame: bytes, correlation_id: int) -> memoryview:
        """As `ask`, for the requests of a login: they wait for no other."""
        await self._writable.wait()
        self._check_open()
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, answer))
        self._write(frame)
        return await answer

    async def send(self, frame: bytes) -> None:
        """Send a frame that gets no answer. Raises ConnectionError."""
        if self._renewal is not None:
            await self._renewal.renew_when_due(self)
        await self._writable.wait()
        self._check_open()
        self._write(frame)

    def break_off(self, failure: Exception) -> None:
        """Fail all waiting requests and close the socket. The first reason counts."""
        if self._failure is not None:
            return
        self._failure = failure
        self._writable.set()
        waiting, self._waiting = self._waiting, deque()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(ConnectionResetError(str(failure)))
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the socket and wait until it is."""
        self.break_off(ConnectionAbortedError("the client closed it"))
        await self._closed

    def _answer(self, frame: memoryview) -> None:
        if self._failure is not None:
            return
        (correlation_id,) = _correlation_id_at(frame) if len(frame) >= 4 else (None,)
        expected, answer = self._waiting.popleft() if self._waiting else (None, None)
        if answer is None or correlation_id != expected:
            if answer is not None and not answer.done():
                answer.set_exception(ConnectionResetError("an answer arrived out of order"))
            self.break_off(
                ConnectionResetError(f"an answer to request {correlation_id} came, not to {expected}")
            )
            return
        if not answer.done():
            answer.set_result(frame)

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise ConnectionResetError(str(self._failure))


class LoginRenewal:
    """The login of one connection, which is renewed while the connection is in use (KIP-368).

    As with Kafka's clients, a login is renewed ahead of the first request after most of its life. A connection without
    requests is left alone: the broker takes the renewal also after the end. Requests under way are answered first, and
    requests that come during a renewal wait.
    """

    def __init__(self, log_in: LogIn, after_seconds: float) -> None:
        self._log_in = log_in
        self._due_at: float | None = asyncio.get_running_loop().time() + after_seconds
        self._lock = asyncio.Lock()

    async def renew_when_due(self, exchange: Exchange) -> None:
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


def _asking(exchange: Exchange) -> Ask:
    async def ask(api: ApiKey, version: int, **fields: object) -> AnyMessage:
        number = exchange.next_correlation_id()
        message = messages.request(api, version, **fields)
        frame = codec.encode_request(api, version, number, None, message)
        return codec.decode_response(api, version, await exchange.ask_at_once(frame, number))[1]

    return ask
