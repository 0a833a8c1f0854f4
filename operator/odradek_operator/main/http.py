"""The operator's own port: /metrics, /healthz (restart me if not), /readyz."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from odradek.foundation.exposition import Exposition
from odradek.foundation.metrics import MetricsRegistry, Source, process_samples


class HttpServer:
    """Serves while the process lives. `sick` and `not_ready` say what is wrong, or None."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        sources: Iterable[Source],
        sick: Callable[[], str | None],
        not_ready: Callable[[], str | None],
    ) -> None:
        self._host = host
        self._port = port
        self._registry = MetricsRegistry()
        for source in (*sources, process_samples):
            self._registry.register(source)
        self._sick = sick
        self._not_ready = not_ready
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the port cannot be had."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._readiness)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def _metrics(self, request: web.Request) -> web.Response:
        exposition = Exposition(request.headers.get("Accept", ""))
        body = b"".join(exposition.parts(self._registry.collect()))
        return web.Response(body=body, headers={"Content-Type": exposition.content_type})

    async def _health(self, _: web.Request) -> web.Response:
        return _answer(self._sick(), "ok")

    async def _readiness(self, _: web.Request) -> web.Response:
        return _answer(self._not_ready(), "ready")


def _answer(problem: str | None, good: str) -> web.Response:
    return web.Response(status=200 if problem is None else 503, text=f"{problem or good}\n")
