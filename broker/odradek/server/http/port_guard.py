"""TLS and logins of the port of --admin: those of the listener that admin.listener.name names.

    Authorization: Basic  the users of PLAIN and SCRAM         -> User:NAME
    Authorization: Bearer tokens of OAUTHBEARER                -> User:NAME
    without it            the client's certificate             -> its subject, by ssl.principal.mapping.rules
    without either        401 where clients log in with SASL, else User:ANONYMOUS

Each request is checked, so a changed password, a deleted user and an authority that is taken out hold from the next
request on. /healthz and /readyz are open: the kubelet has no login, and they name nothing. What callers see beyond that
is decided by their rights (`visible_names`).

A password of SCRAM is checked by both sides of the exchange, played here. It takes milliseconds on a thread, one at a
time, and as long for a user that does not exist. Left out: delegation tokens.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NoReturn

from aiohttp import web

from odradek.broker.listeners.secured_listeners import ClientConfigs, SecuredListeners
from odradek.broker.requests.sasl_counters import NO_MECHANISM, SaslCounters
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.limits import HTTP_PASSWORD_CHECKS_WAITING_MAX
from odradek.foundation.metrics import Sample
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.tls import TlsStream
from odradek.security.authentication.exchange import LoginRefused, SaslExchange, ServerRefused
from odradek.security.authentication.scram import SCRAM_DIGESTS, ScramClient
from odradek.server.http.security_metrics import login_samples, tls_samples
from odradek.server.http.strangers import PlainSite
from odradek.server.http.tls_site import HttpsConnection, TlsSite

if TYPE_CHECKING:
    from odradek.foundation.endpoints import Endpoint
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.security.authentication.listener import ListenerSasl

logger = logging.getLogger(__name__)

OPEN_PATHS: Final = frozenset(("/healthz", "/readyz"))
# No listener has this name: theirs are in capitals.
LISTENER_LABEL: Final = "admin"
_OAUTH: Final = "OAUTHBEARER"
# Whose failures are counted: a wrong password is no mechanism's.
_MECHANISMS: Final = {"bearer": _OAUTH}
# The principal of the request that this task handles. aiohttp before 3.14 has no typed place for it.
_caller: Final[ContextVar[str | None]] = ContextVar("caller", default=None)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PortGuard:
    """The protection of one process's port, by the listener `endpoint` of `settings`."""

    def __init__(
        self,
        settings: Settings,
        endpoint: Endpoint,
        client_configs: Callable[[], ClientConfigs],
        *,
        login_secret: Callable[[], bytes],
    ) -> None:
        """`client_configs` has the credentials of SCRAM, `login_secret` is as `SecuredListeners` has it.

        Raises SettingError or DependencyError.
        """
        self._secured = SecuredListeners(
            settings, client_configs, endpoints=(endpoint,), login_secret=login_secret
        )
        name = endpoint.listener_name
        self._tls = self._secured.tls(name)
        self._passwords = _Passwords(self._secured.sasl(name))
        self._sasl = self._secured.sasl(name)
        self._counters = SaslCounters(() if self._sasl is None else self._sasl.mechanisms)
        self._lines = RateLimitedLog(logger, "logins at --admin that failed")
        self._closing = AsyncExitStack()
        self._sites: list[TlsSite] = []

    @property
    def scheme(self) -> str:
        """`https` with TLS, else `http`."""
        return "http" if self._tls is None else "https"

    def site(
        self, runner: web.AppRunner, host: str | None, port: int, *, listening: socket.socket | None = None
    ) -> web.BaseSite:
        """Where `runner` listens: on (host, port), or at a socket that listens already."""
        if self._tls is None:
            return PlainSite(runner, host, port, listening=listening)
        site = TlsSite(runner, host, port, self._tls, listening=listening)
        self._sites.append(site)
        return site

    async def start(self) -> None:
        """Read keys of tokens, and follow files that change."""
        await self._secured.read_keys()
        self._secured.follow_certificates(lambda: (), self._closing)

    async def stop(self) -> None:
        """Follow no more."""
        await self._closing.aclose()

    def samples(self) -> Iterator[Sample]:
        """The metrics of certificates and logins."""
        if self._tls is not None and self._sites:
            completed = sum(site.handshakes.completed for site in self._sites)
            failed = sum(site.handshakes.failed for site in self._sites)
            yield from tls_samples(LISTENER_LABEL, self._tls, completed, failed)
        if self._sasl is not None:
            yield from login_samples(LISTENER_LABEL, self._counters)

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Names the caller before a request is handled."""
        # One task handles all requests of a connection, so the former caller is replaced in any case.
        _caller.set(None if request.path in OPEN_PATHS else await self._identify(request))
        return await handler(request)

    async def _identify(self, request: web.Request) -> str:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        sasl = self._sasl
        if scheme and sasl is None:
            raise web.HTTPUnauthorized(
                text="this port has no users: its listener is not one with SASL (admin.listener.name)\n"
            )
        principal = self._of_certificate(request)
        if sasl is None or (not scheme and principal != ANONYMOUS):
            return principal
        try:
            mechanism, user = await self._login(sasl, scheme.lower(), credentials.strip())
        except LoginRefused as refused:
            self._counters.of(_MECHANISMS.get(scheme.lower(), NO_MECHANISM)).failed += 1
            await self._refuse(request, sasl, str(refused) if scheme else None)
        self._counters.of(mechanism).successful += 1
        return f"User:{user}"

    async def _login(self, sasl: ListenerSasl, scheme: str, credentials: str) -> tuple[str, str]:
        """(mechanism, user). Raises LoginRefused."""
        if scheme == "basic":
            return await self._passwords.user_of(credentials)
        if scheme == "bearer":
            return _OAUTH, _token_user(sasl, credentials)
        raise LoginRefused("it has neither a Basic nor a Bearer login")

    def _of_certificate(self, request: web.Request) -> str:
        stream: object = request.transport
        if not isinstance(stream, TlsStream):
            return ANONYMOUS
        connection = stream.app
        assert isinstance(connection, HttpsConnection)
        if not connection.is_trusted():
            refused = web.HTTPUnauthorized(text="the certificate is not trusted any more\n")
            refused.force_close()
            raise refused
        return connection.principal

    async def _refuse(self, request: web.Request, sasl: ListenerSasl, reason: str | None) -> NoReturn:
        """Answer 401, late where a login was tried: passwords cannot be tried quickly."""
        if reason is not None:
            self._lines.warning("a login of %s at --admin failed: %s", request.remote, reason)
            await asyncio.sleep(sasl.failure_delay_ms / 1000)
        refused = web.HTTPUnauthorized(
            text="a login is needed: the user is unknown, or its secret is wrong\n"
        )
        if any(name != _OAUTH for name in sasl.mechanisms):
            refused.headers.add("WWW-Authenticate", 'Basic realm="odradek", charset="UTF-8"')
        if _OAUTH in sasl.mechanisms:
            refused.headers.add("WWW-Authenticate", 'Bearer realm="odradek"')
        raise refused


def port_guard(
    settings: Settings, client_configs: Callable[[], ClientConfigs], *, login_secret: Callable[[], bytes]
) -> PortGuard | None:
    """The protection that `settings` ask for; None for none. Raises SettingError or DependencyError."""
    endpoint = settings.admin_endpoint
    return (
        None if endpoint is None else PortGuard(settings, endpoint, client_configs, login_secret=login_secret)
    )


def present_caller() -> str | None:
    """The principal of the request that is handled; None for what is open, and on a port without protection."""
    return _caller.get()


class _Passwords:
    """Checks passwords of PLAIN and SCRAM, those of SCRAM one at a time."""

    def __init__(self, sasl: ListenerSasl | None) -> None:
        self._mechanisms: Mapping[str, Callable[[], SaslExchange]] = (
            {} if sasl is None else {name: one.new_exchange for name, one in sasl.mechanisms.items()}
        )
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    async def user_of(self, credentials: str) -> tuple[str, str]:
        """(mechanism, user) of the base64 text of a Basic login. Raises LoginRefused."""
        try:
            user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise LoginRefused("the Basic login cannot be read") from None
        if not colon or not user or not password or "\0" in user + password:
            raise LoginRefused("the Basic login has no user or no password")
        plain = self._mechanisms.get("PLAIN")
        if plain is not None:
            try:
                plain().answer(f"\0{user}\0{password}".encode())
                return "PLAIN", user
            except LoginRefused:
                pass
        for mechanism in self._mechanisms.keys() & SCRAM_DIGESTS:
            if await self._is_proven(mechanism, user, password):
                return mechanism, user
        raise LoginRefused(f"the user {user!r} is unknown, or the password is wrong")

    async def _is_proven(self, mechanism: str, user: str, password: str) -> bool:
        if self._waiting >= HTTP_PASSWORD_CHECKS_WAITING_MAX:
            raise web.HTTPServiceUnavailable(
                text="too many logins at once; try again\n", headers={"Retry-After": "1"}
            )
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                server = self._mechanisms[mechanism]()
                return await asyncio.to_thread(_plays, ScramClient(mechanism, user, password), server)
        finally:
            self._waiting -= 1


def _plays(client: ScramClient, server: SaslExchange) -> bool:
    """Whether the exchange of both ends in a login."""
    token = b""
    try:
        while (sent := client.answer(token)) is not None:
            token, login = server.answer(sent)
            if login is not None:
                return True
    except (LoginRefused, ServerRefused):
        pass
    return False


def _token_user(sasl: ListenerSasl, token: str) -> str:
    """The user of a token. Raises LoginRefused."""
    mechanism = sasl.mechanisms.get(_OAUTH)
    if mechanism is None:
        raise LoginRefused("a token came, and OAUTHBEARER is not enabled")
    exchange = mechanism.new_exchange()
    _, login = exchange.answer(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if login is None:
        exchange.answer(b"\x01")
    assert login is not None
    return login.user
