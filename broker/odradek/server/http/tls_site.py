"""HTTPS for the port of --admin: aiohttp above the TLS layer that listeners use.

    plain transport -> transport.tls.TlsStream -> HttpsConnection -> aiohttp's protocol

So handshakes are bounded in number and time. Certificates that change on disk hold from the next connection on. The
client is named by the same rules as at a listener. The event loop's own TLS would fix the context at the start.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

from aiohttp import web

from odradek.foundation.limits import TLS_BYTES_PER_READ
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.handshake_turns import Handshakes
from odradek.network.tls import TlsStream, handshake_failure_text, tls_receive_buffer
from odradek.server.http.strangers import new_connection, serve_at

if TYPE_CHECKING:
    from odradek.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)


class HttpsConnection(asyncio.BufferedProtocol):
    """Hands the decrypted bytes of one connection to aiohttp's protocol. `principal` is that of the certificate."""

    def __init__(self, above: Any, buffer: memoryview, tls: ListenerTls) -> None:
        self._above = above
        self._buffer = buffer
        self._tls = tls
        self._material = tls.followed.material
        self._authorities: frozenset[bytes] | None = None
        self.principal = tls.principal_of(None)

    def identify(self, stream: TlsStream) -> None:
        """Name the client by its certificate. Raises ValueError to refuse it."""
        certificate = stream.peer_certificate()
        self.principal = self._tls.principal_of(certificate)
        if certificate is not None:
            self._authorities = self._tls.authorities(stream.peer_chain())
            if not self.is_trusted():
                raise ValueError("its authority was taken out of the trust store during the handshake")

    def is_trusted(self) -> bool:
        """Whether the client's certificate is still trusted; True without one.

        A resumed session has no chain, so any change of the trust store ends it.
        """
        if self._authorities is None:
            return True
        if not self._authorities:
            return self._tls.followed.material is self._material
        return self._tls.still_trusts(self._authorities)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._above.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._above.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._above.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> None:
        self._above.eof_received()

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()


class TlsSite(web.BaseSite):
    """Listens on (host, port), or at a socket that listens already, with the certificates of `tls`."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        tls: ListenerTls,
        *,
        listening: socket.socket | None = None,
    ) -> None:
        super().__init__(runner)
        self._host = host
        self._port = port
        self._listening = listening
        self._tls = tls
        self.handshakes = Handshakes()
        self._received = tls_receive_buffer()
        self._decrypted = memoryview(bytearray(TLS_BYTES_PER_READ))
        self._lines = RateLimitedLog(logger, "TLS handshakes with --admin that failed")

    @property
    def name(self) -> str:
        return f"https://{self._host or '0.0.0.0'}:{self._port}"

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await super().start()
        self._server = await serve_at(self._new_stream, self._host, self._port, listening=self._listening)

    async def stop(self) -> None:
        """Listen no more, and give up handshakes under way."""
        self.handshakes.close()
        await super().stop()

    def _new_stream(self) -> TlsStream:
        assert self._runner.server is not None
        return TlsStream(
            HttpsConnection(new_connection(self._runner.server), self._decrypted, self._tls),
            self._tls.context(),
            on_end=self._handshake_ended,
            receive_buffer=self._received,
            turns=self.handshakes,
        )

    def _handshake_ended(self, stream: TlsStream, failure: Exception | None) -> None:
        if failure is None:
            connection = stream.app
            assert isinstance(connection, HttpsConnection)
            try:
                connection.identify(stream)
                self.handshakes.completed += 1
                return
            except ValueError as refused:
                failure = refused
                stream.abort()
        self.handshakes.failed += 1
        self._lines.warning("a TLS handshake with --admin failed: %s", handshake_failure_text(failure))
