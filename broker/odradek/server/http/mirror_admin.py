"""The HTTP server of a mirror: /metrics, /healthz, /readyz, and /mirror with its flows as JSON.

    {"name": "mirror", "target": "b", "worker": "host-7", "flows": [
      {"flow": "a->b", "source": "a", "state": "running", "not_ready": null,
       "partitions": [{"topic": "orders", "partition": 0, "position": 120, "end": 130, "lag": 10, "lag_seconds": 0.4,
                       "records": 120, "bytes": 9600, "batches": 12, "opened": {"gaps": 1}, "stopped": null}],
       "last_error": {"at_ms": 1795524173767, "kind": "offset-out-of-range", "text": "…"}, …}]}

/readyz answers 503 with the reason while a flow does not mirror. The partitions are those of this worker. The port has
no logins, and shows names of topics to each caller: give it an address that only monitors reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from odradek.foundation.metrics import Sample, process_samples
from odradek.mirror.flow_samples import flow_page, flow_samples
from odradek.mirror.mirror import Mirror
from odradek.server.http.admin import HttpServer
from odradek.server.http.broker_metrics import build_samples

_RUNNING = "running"


class MirrorAdminServer(HttpServer):
    """The HTTP server of one mirror process."""

    def __init__(self, mirror: Mirror, *, host: str, port: int) -> None:
        super().__init__(checks={"flows": self._not_ready}, host=host, port=port)
        self._mirror = mirror
        self.registry.register(build_samples)
        self.registry.register(process_samples)
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
        flows = [
            {**flow_page(flow.counters, label=flow.label, state=flow.state), "not_ready": flow.not_ready()}
            for flow in self._mirror.flows
        ]
        return web.json_response(
            {
                "name": settings.name,
                "target": settings.target.alias,
                "worker": self._mirror.worker_id,
                "flows": flows,
            }
        )
