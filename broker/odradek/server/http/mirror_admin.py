"""The HTTP server of a mirror: /metrics, /healthz, /readyz, and /mirror with the state of each flow as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from odradek.foundation.metric_kinds import Sample
from odradek.mirror.flow_samples import flow_page, flow_samples
from odradek.mirror.mirror import Mirror
from odradek.server.http.admin import HttpServer

_RUNNING = "running"


class MirrorAdminServer(HttpServer):
    """The HTTP server of one mirror process."""

    def __init__(self, mirror: Mirror, *, host: str, port: int) -> None:
        super().__init__(checks={"flows": self._not_ready}, host=host, port=port)
        self._mirror = mirror
        self.registry.register(self._samples)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/mirror", self._page)

    def _not_ready(self) -> str | None:
        reasons = [reason for flow in self._mirror.flows if (reason := flow.not_ready()) is not None]
        return "; ".join(reasons) or None

    def _samples(self) -> Iterator[Sample]:
        for flow in self._mirror.flows:
            yield from flow_samples(flow.counters, is_running=flow.state == _RUNNING)

    async def _page(self, _: web.Request) -> web.Response:
        settings = self._mirror.settings
        flows = [flow_page(flow.counters, label=flow.label, state=flow.state) for flow in self._mirror.flows]
        return web.json_response(
            {
                "name": settings.name,
                "target": settings.target.alias,
                "worker": self._mirror.worker_id,
                "flows": flows,
            }
        )
