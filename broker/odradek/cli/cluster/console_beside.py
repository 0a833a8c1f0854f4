"""The console of `odradek start --console`: in a thread with a loop of its own, so that the broker's stays free."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from odradek.client.client import Client
from odradek.console.clusters import ClusterSource
from odradek.console.http.server import ConsoleServer, ConsoleSettings
from odradek.foundation.console_limits import CONSOLE_REQUEST_MS_MAX
from odradek.foundation.event_loop import new_event_loop

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8088
_STOP_SECONDS_MAX: Final = 5.0


class ConsoleBeside:
    """A console for the broker of this process. `start` returns at once; `stop` waits until it has ended."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None

    def start(self, bootstrap: str) -> None:
        """Serve the cluster of `bootstrap`. A console that fails is logged, and the broker continues."""
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), name="console", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the console, if it runs."""
        if self._thread is None:
            return
        if self._stop is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                self._stop()
        self._thread.join(_STOP_SECONDS_MAX)

    def _run(self, bootstrap: str) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve(bootstrap))
        except Exception:
            logger.exception(
                "the console has ended, and the broker continues; `odradek console` starts another one"
            )

    async def _serve(self, bootstrap: str) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        server = await _start_server(bootstrap)
        try:
            print(f"ready console {server.url} cluster={bootstrap}", flush=True)
            await stopping.wait()
        finally:
            await server.stop()


async def _start_server(bootstrap: str) -> ConsoleServer:
    """At the usual port, or at a free one where that is taken."""
    source = ClusterSource(
        new_client=lambda: Client(
            bootstrap, request_timeout_ms=CONSOLE_REQUEST_MS_MAX, api_timeout_ms=CONSOLE_REQUEST_MS_MAX
        ),
        bootstrap=bootstrap,
        connection=("--bootstrap", bootstrap),
    )
    for port in (PORT_DEFAULT, 0):
        server = ConsoleServer(ConsoleSettings(host=HOST, port=port, clusters=(source,)))
        try:
            await server.start()
        except OSError:
            await server.stop()
            if port == 0:
                raise
            continue
        break
    return server
