"""A schema registry in the test's process, and values as producers with a registry write them."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import fastavro
from aiohttp import web

from tests.support.polling import SECONDS_MAX

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "drink", "type": "string"}],
}


@dataclass
class ServedRegistry:
    """A registry in this process. `answers` has a status and a body by path; `asked` are the paths of its requests."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def add(self, schema_id: int, schema: object, kind: str | None = None, **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.answers[f"/schemas/ids/{schema_id}"] = (200, {"schema": text, "schemaType": kind, **more})

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.logins.append(request.headers.get("Authorization"))
        missing = (404, {"error_code": 40403, "message": "Schema not found"})
        status, body = self.answers.get(request.path, missing)
        return web.Response(status=status, text=body if isinstance(body, str) else json.dumps(body))


@asynccontextmanager
async def served() -> AsyncIterator[ServedRegistry]:
    registry = ServedRegistry()
    application = web.Application()
    application.router.add_get("/{path:.*}", registry.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    registry.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield registry
    finally:
        await runner.cleanup()


def framed(schema_id: int, encoded: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + encoded


def avro(value: object, schema: Any = ORDER) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


class RegistryThread:
    """A registry on an event loop of its own thread, for what blocks the test's thread."""

    registry: ServedRegistry

    def __enter__(self) -> RegistryThread:
        ready, self._is_over = threading.Event(), threading.Event()

        async def serve() -> None:
            async with served() as self.registry:
                ready.set()
                await asyncio.to_thread(self._is_over.wait)

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()))
        self._thread.start()
        assert ready.wait(SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
