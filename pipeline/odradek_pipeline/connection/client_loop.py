"""Our client is asyncio, Spark's Python workers are not: a thread with one event loop and one client for the caller.

The caller's thread decodes and hands over while the loop's thread fetches or sends. A worker of Spark is forked and
lives over many tasks. So a loop belongs to one call, is made in the process that uses it, and is closed with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

from odradek.client.client import Client
from odradek_pipeline.connection.clients import make_network
from odradek_pipeline.settings.options import Options

T = TypeVar("T")
_CLOSE_SECONDS_MAX: Final = 10.0


class ClientLoop:
    """`with ClientLoop(options) as loop: cluster = loop.run(loop.client.refresh(None))`."""

    def __init__(self, options: Options) -> None:
        self._bootstrap = options.require("bootstrap.servers")
        self._client_id: str = options["client.id"]
        self._request_timeout_ms: int = options["request.timeout.ms"]
        self._security = options.security()

    def __enter__(self) -> ClientLoop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="odradek-client", daemon=True)
        self._thread.start()
        try:
            self.client = self.run(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    async def _open(self) -> Client:
        client = Client(
            self._bootstrap,
            client_id=self._client_id,
            request_timeout_ms=self._request_timeout_ms,
            network=make_network(self._security, client_id=self._client_id),
        )
        return await client.__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(_CLOSE_SECONDS_MAX)
        finally:
            self._stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` in the loop's thread, and raise what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS_MAX)
        if not self._thread.is_alive():
            self._loop.close()
