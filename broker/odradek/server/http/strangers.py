"""What any client may send to the port of --admin: documents that are no JSON, and connections that ask nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

from aiohttp import web

from odradek.foundation.limits import HTTP_CONNECTIONS_MAX


def parse_json(data: bytes) -> object:
    """The document of a body, which is UTF-8 (RFC 8259) whatever charset a request names. Raises ValueError."""
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("the body has too many arrays or objects in one another") from None


def bad_request(reason: object) -> web.Response:
    """400 with the reason. A name in it may be no text: JSON can express half a character."""
    body = f"{reason}\n".encode("utf-8", "backslashreplace")
    return web.Response(status=400, body=body, content_type="text/plain", charset="utf-8")


def new_connection(server: web.Server) -> asyncio.Protocol:
    """aiohttp's protocol for a new connection. With too many open, the oldest is closed: aiohttp waits for ever."""
    open_now = server.connections
    if len(open_now) >= HTTP_CONNECTIONS_MAX:
        open_now[0].force_close()
    return server()


class PlainSite(web.BaseSite):
    """Listens on (host, port), or at a socket that listens already, without TLS. Its connections are bounded."""

    def __init__(
        self, runner: web.BaseRunner, host: str | None, port: int, *, listening: socket.socket | None = None
    ) -> None:
        super().__init__(runner)
        self._host = host
        self._port = port
        self._listening = listening

    @property
    def name(self) -> str:
        return f"http://{self._host or '0.0.0.0'}:{self._port}"

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await super().start()
        server = self._runner.server
        assert server is not None
        self._server = await serve_at(
            lambda: new_connection(server), self._host, self._port, listening=self._listening
        )


async def serve_at(
    new_protocol: Callable[[], asyncio.BaseProtocol],
    host: str | None,
    port: int,
    *,
    listening: socket.socket | None,
) -> asyncio.Server:
    """A server on (host, port), or at a socket that listens already. Raises OSError."""
    loop = asyncio.get_running_loop()
    if listening is None:
        return await loop.create_server(new_protocol, host, port)
    if listening.family == socket.AF_UNIX:
        return await loop.create_unix_server(new_protocol, sock=listening)
    return await loop.create_server(new_protocol, sock=listening)
