"""The HTTP server of a process: /metrics for Prometheus, /healthz for liveness, /readyz for readiness.

/readyz answers 503 with the reason while the process does not serve, and while a broker's disk is full. Reads continue
on a full disk, so `/readyz?exclude=disk` leaves the disk out, for load balancers (docs/design/0007).

Loaded only with `--admin`, since aiohttp takes longer to import than the broker takes to start. It listens before the
logs are loaded, so that a long recovery is alive and not ready. It has the TLS and the logins of the listener that
admin.listener.name names (`port_guard`), else none; `visible_names` says which names its callers see. POST
/record-times (`server.http.record_times`) returns the age of records, and GET /queue-locks (`server.http.queue_locks`)
which member of a share group has which records. A broker started for tests also serves /testing/faults
(`broker.process.testing_faults`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from odradek.broker.process.broker_process import AnyBroker
from odradek.broker.process.testing_faults import Faults
from odradek.foundation.exposition import Exposition
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.listening import advise_on_address
from odradek.foundation.metrics import MetricsRegistry
from odradek.security.authorization.acls import AclResourceType
from odradek.server.http import broker_metrics
from odradek.server.http.queue_locks import list_locks, parse_group
from odradek.server.http.record_times import describable, parse_question, record_times
from odradek.server.http.strangers import PlainSite, bad_request, parse_json
from odradek.server.http.visible_names import AllNames, Names, may_alter, names_for, visible_samples

if TYPE_CHECKING:
    from odradek.broker.listeners.secured_listeners import ClientConfigs
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.server.http.port_guard import PortGuard

logger = logging.getLogger(__name__)

_http_logger = logging.getLogger(f"{__name__}.http")
_REASON_CHARACTERS_MAX: Final = 200
# For a caller whose address is not known: it is no machine's.
NO_HOST: Final = "0.0.0.0"


class ClientErrorFilter(logging.Filter):
    """Errors of clients are not failures of the process: each gets one line, not a trace at ERROR."""

    def filter(self, record: logging.LogRecord) -> bool:
        failure = record.exc_info[1] if record.exc_info else None
        if isinstance(failure, HttpProcessingError | ConnectionError):
            reason = ascii(" ".join(str(failure).split()))[1:-1][:_REASON_CHARACTERS_MAX]
            record.msg, record.args = (
                "a client of --admin sent no request, or closed the connection during it: %s",
                (reason,),
            )
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return True


_http_logger.addFilter(ClientErrorFilter())


class HttpServer:
    """Serves metrics and the state of a process on (host, port)."""

    def __init__(
        self,
        *,
        checks: Mapping[str, Callable[[], str | None]],
        host: str,
        port: int,
        guard: PortGuard | None = None,
        listening: Sequence[socket.socket] = (),
    ) -> None:
        """`checks` by the name that /readyz?exclude= takes; each returns why the process is not ready, or None.

        `guard` protects the port. With `listening` it serves at these sockets, which listen on (host, port) already.
        """
        self._checks = dict(checks)
        self._host = host
        self._port = port
        self._listening = listening
        self._guard = guard
        self._runner: web.AppRunner | None = None
        self.registry = MetricsRegistry()
        if guard is not None:
            self.registry.register(guard.samples)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add this process's further routes."""

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        guard = self._guard
        self._runner = self._new_runner(
            web.Application(middlewares=() if guard is None else (guard.middleware,))
        )
        await self._runner.setup()
        new_site = PlainSite if guard is None else guard.site
        try:
            for listening in self._listening or (None,):
                await new_site(self._runner, self._host or None, self._port, listening=listening).start()
            if guard is not None:
                await guard.start()
        except OSError as error:
            await self.stop()
            host = f"[{self._host}]" if ":" in self._host else self._host
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(
                error.errno,
                f"--admin cannot listen on {host}:{self._port}: {reason}; {advise_on_address(error)}",
            ) from error

    def _new_runner(self, application: web.Application) -> web.AppRunner:
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._readiness)
        self.add_routes(application.router)
        # A compressed body would be decompressed as it arrives, whatever it grows to.
        return web.AppRunner(
            application, access_log=None, handle_signals=False, logger=_http_logger, auto_decompress=False
        )

    async def stop(self) -> None:
        """Stop listening; a scrape in progress is finished."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._guard is not None:
            await self._guard.stop()

    @property
    def url(self) -> str:
        """SCHEME://HOST:PORT of the listening socket."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        scheme = "http" if self._guard is None else self._guard.scheme
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def _metrics(self, request: web.Request) -> web.Response:
        exposition = Exposition(request.headers.get("Accept", ""))
        parts = []
        visible = visible_samples(self.registry.collect(), self.names(request))
        for part in exposition.parts(visible):
            parts.append(part)
            # Clients are served between the parts of a broker with many partitions.
            await asyncio.sleep(0)
        return web.Response(body=b"".join(parts), headers={"Content-Type": exposition.content_type})

    def names(self, request: web.Request) -> Names:
        """The names that the caller may see. A controller has no metrics with names of clients' resources."""
        return AllNames()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        if unknown := excluded - self._checks.keys():
            known = ", ".join(self._checks)
            named = ascii(", ".join(sorted(unknown)))[:_REASON_CHARACTERS_MAX]
            return web.Response(status=400, text=f"no check is called {named}; exclude any of: {known}\n")
        for name, check in self._checks.items():
            reason = None if name in excluded else check()
            if reason is not None:
                return web.Response(status=503, text=f"{reason}\n")
        return web.Response(text="ready\n")


class AdminServer(HttpServer):
    """The HTTP server of a broker. `faults` are those of a broker that is started for tests of applications."""

    def __init__(
        self,
        broker: AnyBroker,
        *,
        host: str,
        port: int,
        faults: Faults | None = None,
        listening: Sequence[socket.socket] = (),
    ) -> None:
        checks = {"serving": broker.not_ready, "disk": broker.describe_refused_writes}
        guard = guard_of(
            broker.settings,
            lambda: broker.images.current.client_configs,
            login_secret=lambda: broker.images.current.login_secret,
        )
        super().__init__(checks=checks, host=host, port=port, guard=guard, listening=listening)
        self._broker = broker
        self._faults = faults
        broker_metrics.register(broker, self.registry)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/record-times", self._record_times)
        router.add_get("/queue-locks", self._queue_locks)
        if self._faults is not None:
            routes = _FaultRoutes(self._faults, self.may_alter)
            router.add_post("/testing/faults", routes.add)
            router.add_delete("/testing/faults", routes.clear)

    async def _record_times(self, request: web.Request) -> web.Response:
        if self._broker.not_ready() is not None:
            return web.Response(status=503, text=f"{self._broker.not_ready()}\n")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return web.Response(status=415, text="send the body as it is: compressed ones are not read\n")
        body = await request.read()
        try:
            # JSON of this size may take some of a turn's time.
            offsets = await self._broker.long_work.submit(lambda: parse_question(body))
        except ValueError as error:
            return bad_request(error)
        visible = describable(offsets, self.names(request))
        return web.json_response(await record_times(self._broker, visible))

    async def _queue_locks(self, request: web.Request) -> web.Response:
        if self._broker.not_ready() is not None:
            return web.Response(status=503, text=f"{self._broker.not_ready()}\n")
        try:
            group_id = parse_group(request.query.items())
        except ValueError as error:
            return bad_request(error)
        names = self.names(request)
        if not names.may_see(AclResourceType.GROUP, group_id):
            return web.Response(
                status=403,
                text="the caller may not describe this group: it needs Describe on it, and a login where the port has "
                "one (admin.listener.name)\n",
            )
        return web.json_response(await list_locks(self._broker, group_id, names))

    def names(self, request: web.Request) -> Names:
        return names_for(self._broker, request.remote or NO_HOST, self._caller())

    def may_alter(self, request: web.Request) -> bool:
        """Whether the caller may do what changes the broker."""
        return may_alter(self._broker, request.remote or NO_HOST, self._caller())

    def _caller(self) -> str | None:
        """None on a port without protection."""
        if self._guard is None:
            return None
        from odradek.server.http.port_guard import present_caller

        # Routes that change or name something are not open: without a caller nothing must be shown.
        return present_caller() or ANONYMOUS


def guard_of(
    settings: Settings, client_configs: Callable[[], ClientConfigs], *, login_secret: Callable[[], bytes]
) -> PortGuard | None:
    """The protection of the port, if the settings ask for any. Raises SettingError or DependencyError."""
    if not settings.admin_listener_name:
        return None
    # OpenSSL and the mechanisms of logins are loaded where they are used only.
    from odradek.server.http.port_guard import port_guard

    return port_guard(settings, client_configs, login_secret=login_secret)


class _FaultRoutes:
    """POST and DELETE /testing/faults, for callers that may alter the cluster."""

    def __init__(self, faults: Faults, may_alter: Callable[[web.Request], bool]) -> None:
        self._faults = faults
        self._may_alter = may_alter

    def _refuse_strangers(self, request: web.Request) -> None:
        if not self._may_alter(request):
            raise web.HTTPForbidden(
                text="faults are asked for on this machine, or with the right to alter the cluster\n"
            )

    async def add(self, request: web.Request) -> web.Response:
        self._refuse_strangers(request)
        try:
            fields = parse_json(await request.read())
            if not isinstance(fields, dict):
                raise ValueError("the body must be an object with the fault's fields")
            if "close" in fields:
                fields["disconnect"] = fields.pop("close")
            self._faults.add(**fields)
        except (ValueError, TypeError) as error:
            return bad_request(error)
        return web.Response(text="ok\n")

    async def clear(self, request: web.Request) -> web.Response:
        self._refuse_strangers(request)
        self._faults.clear()
        return web.Response(text="ok\n")
