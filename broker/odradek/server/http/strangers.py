"""What any client may send to the port of --admin: documents that are no JSON, and connections that ask nothing."""

from __future__ import annotations

import asyncio
import json

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
    """Listens on (host, port) without TLS, with a bounded number of connections."""

    def __init__(self, runner: web.BaseRunner, host: str | None, port: int) -> None:
        super().__init__(runner)
        self._host = host
        self._port = port

    @property
    def name(self) -> str:
        return f"http://{self._host or '0.0.0.0'}:{self._port}"

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await super().start()
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: new_connection(server), self._host, self._port)
