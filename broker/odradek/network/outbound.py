"""A connection to another broker: several requests under way at once, each awaited by its sender.

Answers arrive in the order of requests. A correlation id out of order closes the connection. So does a request that
times out: the answers behind it would be as late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.foundation.errors import FrameError, InvalidRequest, RequestTimedOut
from odradek.foundation.limits import OUTBOUND_REQUESTS_IN_FLIGHT_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.network.network import Network
from odradek.wire.protocol.codec import decode_response_body, encode_request
from odradek.wire.protocol.framing import FrameReader, parse_response_header, receive_buffer

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

# Stands for an API key: the answer is returned as raw bytes, after the check of its correlation id.
_UNREAD: Final = -1


class _WaitingRequest(NamedTuple):
    """A request without an answer yet."""

    correlation_id: int
    api_key: int
    api_version: int
    answer: asyncio.Future[AnyMessage]


class OutboundConnection(asyncio.BufferedProtocol):
    """A client's end of one connection; made by `connect`.

    `send` may be called from many tasks. After the connection is lost every call raises ConnectionError.
    """

    def __init__(self, *, client_id: str, frame_bytes_max: int, timeout_ms: int) -> None:
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._reader = FrameReader(frame_bytes_max, receive_buffer())
        self._transport: Any = None
        self._waiting: deque[_WaitingRequest] = deque()
        self._room = asyncio.Semaphore(OUTBOUND_REQUESTS_IN_FLIGHT_MAX)
        self._next_correlation_id = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._lost = asyncio.Event()
        self._failure: Exception | None = None
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @classmethod
    async def connect(
        cls,
        network: Network,
        *,
        host: str,
        port: int,
        client_id: str,
        frame_bytes_max: int = 104_857_600,
        timeout_ms: int = 30_000,
    ) -> OutboundConnection:
        """Connect. Raises OSError, or TimeoutError after `timeout_ms`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await network.connect(
                    lambda: cls(client_id=client_id, frame_bytes_max=frame_bytes_max, timeout_ms=timeout_ms),
                    host=host,
                    port=port,
                )
        except TimeoutError:
            # It comes without a word, and goes into messages.
            raise TimeoutError(f"{host}:{port} answered nothing within {timeout_ms} ms") from None
        return cast(OutboundConnection, connection)

    async def send(
        self, api_key: int, api_version: int, message: object, *, timeout_ms: int | None = None
    ) -> AnyMessage:
        """Send a request and wait for its answer, a kio message.

        Raises RequestTimedOut after `timeout_ms`, ConnectionError when the connection is lost first, and
        InvalidRequest when the answer cannot be read.
        """

        def pack(correlation_id: int) -> bytes:
            return encode_request(api_key, api_version, correlation_id, self._client_id, message)

        return await self._exchange(pack, api_key, api_version, timeout_ms=timeout_ms)

    async def send_frame(self, pack: Callable[[int], bytes], *, timeout_ms: int | None = None) -> memoryview:
        """Send the whole frame that `pack(correlation id)` makes, and wait for its answer's, without its size.

        For requests of our own, whose answers begin with the correlation id as all do. Raises as `send`.
        """
        answer: memoryview = await self._exchange(pack, _UNREAD, 0, timeout_ms=timeout_ms)
        return answer

    async def _exchange(
        self, pack: Callable[[int], bytes], api_key: int, api_version: int, *, timeout_ms: int | None
    ) -> AnyMessage:
        seconds = (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if self._room.locked() or not self._may_write.is_set():
            return await self._exchange_later(pack, api_key, api_version, seconds=seconds)
        # The usual case: nothing to wait for but the answer, and one timer.
        await self._room.acquire()
        timer: asyncio.TimerHandle | None = None
        try:
            answer = self._write(pack, api_key, api_version)
            timer = asyncio.get_running_loop().call_later(seconds, self._is_late, answer, api_key, seconds)
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            self._room.release()

    def _is_late(self, answer: asyncio.Future[AnyMessage], api_key: int, seconds: float) -> None:
        if not answer.done():
            failure = _late(api_key, seconds)
            answer.set_exception(failure)
            self._fail(ConnectionError(str(failure)))

    async def _exchange_later(
        self, pack: Callable[[int], bytes], api_key: int, api_version: int, *, seconds: float
    ) -> AnyMessage:
        """As `_exchange`, for a request that must wait for a free slot or for the socket."""
        try:
            async with asyncio.timeout(seconds), self._room:
                await self._may_write.wait()
                return await self._write(pack, api_key, api_version)
        except TimeoutError:
            failure = _late(api_key, seconds)
            self._fail(ConnectionError(str(failure)))
            raise failure from None

    @property
    def is_lost(self) -> bool:
        return self._failure is not None

    def interrupt(self) -> None:
        """Close at once; requests under way raise ConnectionError."""
        self._fail(ConnectionError("the requests under way were given up"))

    async def close(self) -> None:
        """Close; requests under way raise ConnectionError."""
        self._fail(ConnectionError("the connection was closed"))
        await self._lost.wait()

    def _write(
        self, pack: Callable[[int], bytes], api_key: int, api_version: int
    ) -> asyncio.Future[AnyMessage]:
        if self._failure is not None:
            raise ConnectionError(f"the connection is lost: {self._failure}") from self._failure
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        frame = pack(correlation_id)
        answer: asyncio.Future[AnyMessage] = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingRequest(correlation_id, api_key, api_version, answer))
        self.requests += 1
        self.bytes_out += len(frame)
        self._transport.write(frame)
        return answer

    # --- what the transport calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, failure: Exception | None) -> None:
        self._fail(failure or ConnectionError("the peer closed the connection"))
        self._lost.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        for frame in self._reader.take_received(nbytes):
            if self._failure is None:
                self._receive_frame(frame)
        if self._reader.failure is not None:
            self._fail(self._reader.failure)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _receive_frame(self, frame: memoryview) -> None:
        if not self._waiting:
            self._fail(FrameError(f"an answer of {len(frame)} bytes came, but no request waits for one"))
            return
        waiting = self._waiting.popleft()
        message: AnyMessage
        try:
            if waiting.api_key == _UNREAD:
                correlation_id, position = int.from_bytes(frame[:4], "big", signed=True), 4
            else:
                correlation_id, position = parse_response_header(
                    frame, api_key=waiting.api_key, api_version=waiting.api_version
                )
            if correlation_id != waiting.correlation_id:
                raise FrameError(
                    f"the answer has the correlation id {correlation_id}, due was {waiting.correlation_id}"
                )
            if waiting.api_key == _UNREAD:
                message = frame
            else:
                message = decode_response_body(waiting.api_key, waiting.api_version, frame, position)
        except (FrameError, InvalidRequest) as failure:
            if not waiting.answer.done():
                waiting.answer.set_exception(failure)
            self._fail(failure)
            return
        if not waiting.answer.done():
            waiting.answer.set_result(message)

    def _fail(self, failure: Exception) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._may_write.set()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if not request.answer.done():
                request.answer.set_exception(ConnectionError(f"the connection is lost: {failure}"))
        if self._transport is not None:
            self._transport.abort()


def _late(api_key: int, seconds: float) -> RequestTimedOut:
    what = "a request" if api_key == _UNREAD else f"request {api_key}"
    return RequestTimedOut(f"{what} was not answered within {seconds} s")


class ConnectAttempt:
    """An attempt to connect to a peer, which another task can cancel; at most one at a time.

    A dead host answers nothing, so an attempt to connect to it takes its whole timeout. A task that learns of the
    peer's new address must not wait for that.
    """

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
