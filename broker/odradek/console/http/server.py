"""The HTTP server of the console: its pages, what they ask, and what they change.

    GET  /                       the page in which all others are shown
    GET  /assets/NAME            scripts, styles, pictures
    GET  /healthz                `ok` while the process serves, whatever the clusters do
    GET  /api/about              the clusters, and whether changes are allowed
    GET  /api/clusters           how each of them is
    GET  /api/overview, findings, topics, topic, settings, groups, group
    GET  /api/transactions, hanging, moves, users, quotas, rights, mirrors, carried
    GET  /api/records, record    a page of a partition, and one record
    GET  /api/tail, search       events until the page closes
    POST /api/actions/NAME       a change, or its preview

Where there are several clusters, all below the first two have the field `cluster`. `cluster_pages` answers them. Where
viewers log in (`logins`), each is answered by the client of that viewer, and 401 without one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from odradek.console.clusters import ClusterSource, ConsoleCluster, find_cluster, look_at_all
from odradek.console.http.answers import Assets, answer, answer_failure, refuse
from odradek.console.http.cluster_pages import HANDLERS, Handle, change, read_query
from odradek.console.http.logins import ConsoleLogins, NotLoggedInError
from odradek.console.http.protection import API, HEALTH, BrowserGuard, Handler
from odradek.console.logins import LoginSource
from odradek.console.oidc import OidcProvider, OidcSettings
from odradek.foundation.console_limits import CONSOLE_BODY_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.listening import is_elsewhere
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
    logins: Sequence[LoginSource] = ()
    """How viewers log in at each cluster; without them each viewer is the user of the command."""
    url: str | None = None
    """The address by which browsers reach it, where that is not the port's."""
    oidc: OidcSettings | None = None


class ConsoleServer:
    """Serves one console. Its clusters need not answer yet."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        own = () if settings.url is None else (urlsplit(settings.url).hostname or "",)
        self._guard = BrowserGuard((settings.host, *own, *settings.allowed_hosts))
        self.logins = _make_logins(settings)
        self.clusters = [] if self.logins else [ConsoleCluster(one) for one in settings.clusters]
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
        if self.logins is not None:
            self.logins.add_routes(router)
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
            advice = "choose another --host" if is_elsewhere(error) else "choose another --port"
            raise OSError(
                error.errno, f"the console cannot listen on {host}:{port}: {reason}; {advice}"
            ) from error
        if self.logins is not None:
            self.logins.start(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening, end what is asked and read for viewers, and close the clients."""
        if self._runner is not None:
            await self._runner.cleanup()
        for cluster in self.clusters:
            await cluster.close()
        if self.logins is not None:
            await self.logins.close()

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
        except NotLoggedInError as failure:
            return answer({"error": str(failure), "login": failure.cluster}, status=401)
        except web.HTTPException as failure:
            return refuse(failure.status, failure.reason)
        except (OdradekError, OSError) as failure:
            return answer_failure(failure)

    # --- what browsers ask ----------------------------------------------------------------------------------------

    async def _about(self, request: web.Request) -> web.Response:
        shared = [{"name": one.name, "bootstrap": one.bootstrap} for one in self._settings.clusters]
        return answer(
            {
                "clusters": shared if self.logins is None else self.logins.describe(request),
                "version": __version__,
                "may_change": self._settings.may_change,
            }
        )

    async def _look_at_clusters(self, request: web.Request) -> web.Response:
        if self.logins is None:
            return answer({"clusters": await look_at_all(self.clusters)})
        own = self.logins.list_own(request)
        seen = await look_at_all(login.cluster for login in own.values())
        others = [{"name": one.name, "login": True} for one in self._settings.clusters if one.name not in own]
        return answer({"clusters": [*seen, *others]})

    async def _ask(self, handle: Handle, request: web.Request) -> web.StreamResponse:
        return await handle(self._choose(request)[0], request)

    async def _act(self, request: web.Request) -> web.Response:
        if not self._settings.may_change:
            return refuse(403, "this console only shows: it was started without --allow-changes")
        cluster, user = self._choose(request)
        address = request.remote or _UNKNOWN_ADDRESS
        who = address if user is None else f"{user!r} from {address}"
        is_alone = len(self._settings.clusters) == 1
        return await change(cluster, request, by=who if is_alone else f"{who} in cluster {cluster.name}")

    def _choose(self, request: web.Request) -> tuple[ConsoleCluster, str | None]:
        """The cluster that is asked, and the viewer's user where viewers log in."""
        name = read_query(request).text_or_none("cluster")
        if self.logins is None:
            return find_cluster(self.clusters, name), None
        login = self.logins.find(request, name)
        return login.cluster, login.user


def _make_logins(settings: ConsoleSettings) -> ConsoleLogins | None:
    if not settings.logins:
        return None
    provider = None if settings.oidc is None else OidcProvider(settings.oidc)
    return ConsoleLogins(settings.logins, url=settings.url, provider=provider)


async def _answer_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})
