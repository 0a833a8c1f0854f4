"""HTTP beside the broker: /metrics for Prometheus, /healthz for liveness, /readyz for readiness.

Loaded only with `--admin`, since aiohttp takes longer to import than the broker takes to start. It listens
before the logs are loaded, so that a long recovery looks alive and not ready. A broker started for tests
also takes /testing/faults (`server.faults`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from aiohttp import web

from odradek.foundation.metrics import CONTENT_TYPE, MetricsRegistry
from odradek.server import measures
from odradek.server.broker import Broker

logger = logging.getLogger(__name__)


class AdminServer:
    """Serves `broker`'s insides on (host, port)."""

    def __init__(self, broker: Broker, *, host: str, port: int) -> None:
        self._broker = broker
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._registry = MetricsRegistry()
        measures.register(broker, self._registry)

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be had."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._readiness)
        if self._broker.faults is not None:
            application.router.add_post("/testing/faults", self._add_fault)
            application.router.add_delete("/testing/faults", self._clear_faults)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host or None, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            host = f"[{self._host}]" if ":" in self._host else self._host
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(
                error.errno,
                f"--admin cannot listen on {host}:{self._port}: {reason}; choose another address, or stop the "
                "process that uses it",
            ) from error

    async def stop(self) -> None:
        """Stop listening; a scrape under way is finished."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def address(self) -> str:
        """host:port as it is listened on."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _metrics(self, _: web.Request) -> web.Response:
        parts = []
        for part in self._registry.parts():
            parts.append(part)
            # Clients have their turn between the metrics of a broker with many partitions.
            await asyncio.sleep(0)
        return web.Response(body="".join(parts).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _: web.Request) -> web.Response:
        if not self._broker.is_serving:
            return web.Response(status=503, text="the broker is starting or stopping\n")
        groups = self._broker.started_groups
        if groups is not None and groups.is_loading:
            return web.Response(status=503, text="the group coordinator is loading\n")
        return web.Response(text="ready\n")

    async def _add_fault(self, request: web.Request) -> web.Response:
        try:
            fields: dict[str, Any] = await request.json()
            if "close" in fields:
                fields["disconnect"] = fields.pop("close")
            self._broker.faults.add(**fields)
        except (ValueError, TypeError) as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(text="ok\n")

    async def _clear_faults(self, _: web.Request) -> web.Response:
        self._broker.faults.clear()
        return web.Response(text="ok\n")
