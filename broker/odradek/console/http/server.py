"""The HTTP server of the console: its pages, what they ask, and what they change.

    GET  /                       the page in which all others are shown
    GET  /assets/NAME            scripts, styles, pictures
    GET  /healthz                `ok` while the process serves, whatever the clusters do
    GET  /api/about              the clusters, and whether changes are allowed
    GET  /api/clusters           how each of them is
    GET  /api/overview, findings, topics, topic, settings, groups, group
    GET  /api/transactions, hanging, moves, users, quotas, rights
    GET  /api/records, record    a page of a partition, and one record
    GET  /api/tail, search       events until the page closes
    POST /api/actions/NAME       a change, or its preview

Where there are several clusters, all below the first two have the field `cluster`. `cluster_pages` answers them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from odradek.console.clusters import ClusterSource, ConsoleCluster, find_cluster, look_at_all
from odradek.console.http.answers import Assets, answer, answer_failure, refuse
from odradek.console.http.cluster_pages import HANDLERS, Handle, change, read_query
from odradek.console.http.protection import API, HEALTH, BrowserGuard, Handler
from odradek.foundation.console_limits import CONSOLE_BODY_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.version import __version__
from odradek.server.http.strangers import PlainSite

_ACTIONS: Final = f"{API}actions/"
_UNKNOWN_ADDRESS: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How a console is served, and of which clusters."""

    host: str
    port: int
    clusters: Sequence[ClusterSource]
    allowed_hosts: Sequence[str] = ()
    may_change: bool = False


class ConsoleServer:
    """Serves one console. Its clusters need not answer yet."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._guard = BrowserGuard((settings.host, *settings.allowed_hosts))
        self.clusters = [ConsoleCluster(one) for one in settings.clusters]
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        application = web.Application(
            middlewares=(self._answer_safely,), client_max_size=CONSOLE_BODY_BYTES_MAX
        )
        application.on_response_prepare.append(self._guard.set_headers)
        assets, router = Assets(), application.router
        router.add_get("/", assets.first_page)
        router.add_get("/assets/{name}", assets.asset)
        router.add_get(HEALTH, _answer_health)
        router.add_get(f"{API}about", self._about)
        router.add_get(f"{API}clusters", self._look_at_clusters)
        for name, handle in HANDLERS.items():
            router.add_get(f"{API}{name}", partial(self._ask, handle))
        router.add_post(f"{_ACTIONS}{{name}}", self._act)
        # A reading ends with its page, and a compressed body would grow to whatever it likes.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            auto_decompress=False,
            handler_cancellation=True,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            await PlainSite(self._runner, host, port).start()
        except OSError as error:
            await self.stop()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(
                error.errno, f"the console cannot listen on {host}:{port}: {reason}; choose another --port"
            ) from error

    async def stop(self) -> None:
        """Stop listening, end what is asked and read for viewers, and close the clients."""
        if self._runner is not None:
            await self._runner.cleanup()
        for cluster in self.clusters:
            await cluster.close()

    @property
    def url(self) -> str:
        """http://HOST:PORT of the listening socket."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @web.middleware
    async def _answer_safely(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request)
        if refusal is not None:
            return refuse(*refusal)
        try:
            return await handler(request)
        except web.HTTPException as failure:
            return refuse(failure.status, failure.reason)
        except (OdradekError, OSError) as failure:
            return answer_failure(failure)

    # --- what browsers ask ----------------------------------------------------------------------------------------

    async def _about(self, _: web.Request) -> web.Response:
        return answer(
            {
                "clusters": [
                    {"name": one.name, "bootstrap": one.bootstrap} for one in self._settings.clusters
                ],
                "version": __version__,
                "may_change": self._settings.may_change,
            }
        )

    async def _look_at_clusters(self, _: web.Request) -> web.Response:
        return answer(await look_at_all(self.clusters))

    async def _ask(self, handle: Handle, request: web.Request) -> web.StreamResponse:
        return await handle(self._choose_cluster(request), request)

    async def _act(self, request: web.Request) -> web.Response:
        if not self._settings.may_change:
            return refuse(403, "this console only shows: it was started without --allow-changes")
        cluster = self._choose_cluster(request)
        address = request.remote or _UNKNOWN_ADDRESS
        by = address if len(self.clusters) == 1 else f"{address} in cluster {cluster.name}"
        return await change(cluster, request, by=by)

    def _choose_cluster(self, request: web.Request) -> ConsoleCluster:
        return find_cluster(self.clusters, read_query(request).text_or_none("cluster"))


async def _answer_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})
