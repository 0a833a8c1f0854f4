"""What any client may send to the port of --admin is answered without a trace in the log."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web

from odradek.foundation.limits import HTTP_CONNECTIONS_MAX
from odradek.server.http.admin import HttpServer
from odradek.server.http.record_times import parse_question
from odradek.server.http.strangers import bad_request
from tests.support.stories import in_real_time

DEEP = b"[" * 200_000
HALF_CHARACTER = b'{"\\ud800": 1}'


class Asked(HttpServer):
    """Answers as POST /record-times does, without a broker."""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/record-times", self._ask)

    async def _ask(self, request: web.Request) -> web.Response:
        try:
            return web.json_response({"asked": len(parse_question(await request.read()))})
        except ValueError as error:
            return bad_request(error)


async def exchange(port: int, body: bytes, content_type: str = "application/json") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /record-times HTTP/1.0\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode("latin-1") + body)
    answer = await reader.read()
    writer.close()
    return answer


async def serve() -> tuple[Asked, int]:
    server = Asked(checks={}, host="127.0.0.1", port=0)
    await server.start()
    return server, int(server.url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (DEEP, "application/json"),
        (b'{"a":' * 100_000, "application/json"),
        (HALF_CHARACTER, "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[]", "application/json; charset=klingon"),
        (b"1" * 5000, "application/json"),
        (json.dumps({"t": {"0": "x" * 10_000}}).encode(), "text/plain; charset=utf-16"),
    ],
)
@in_real_time
async def test_a_body_that_is_no_question_is_refused(
    body: bytes, content_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, port = await serve()
    assert b" 400 " in (await exchange(port, body, content_type)).splitlines()[0]
    assert b" 200 " in (await exchange(port, b'{"t": {"0": 5}}', content_type)).splitlines()[0]
    await server.stop()
    assert not [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]


@in_real_time
async def test_connections_that_ask_nothing_do_not_keep_others_out() -> None:
    server, port = await serve()
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(HTTP_CONNECTIONS_MAX + 20)]
    assert b" 200 " in (await exchange(port, b'{"t": {"0": 5}}')).splitlines()[0]
    reader, _ = silent[0]
    assert await reader.read() == b""
    for _, writer in silent:
        writer.close()
    await server.stop()
