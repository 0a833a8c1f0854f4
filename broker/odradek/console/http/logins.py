"""Logins over HTTP: the cookie of a session, and what asks for a name and a password, or sends to a provider.

    POST /api/login              {cluster, user, password}; the answer sets the cookie
    POST /api/logout             ends the session
    GET  /login?cluster=NAME     sends the browser to the identity provider
    GET  /login/done             where the provider sends it back to

The two that the browser opens itself answer with a page or another address, never with what a cluster holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from odradek.console.clusters import ClusterSlots, ConsoleCluster, NoSuchClusterError
from odradek.console.http.answers import answer, refuse
from odradek.console.http.cluster_pages import read_body, read_query
from odradek.console.http.protection import API
from odradek.console.login_tries import LoginTries, TooManyTriesError
from odradek.console.logins import (
    LoginDeniedError,
    LoginSource,
    log_in,
    make_credentials,
    make_token_credentials,
)
from odradek.console.oidc import OidcProvider, OidcRefusedError, ProviderFailedError
from odradek.console.reading import Document, ViewerSlots
from odradek.console.sessions import Sessions, ViewerLogin
from odradek.foundation.console_limits import CONSOLE_LOGINS_AT_ONCE_MAX, CONSOLE_OIDC_SECONDS_MAX
from odradek.foundation.errors import OdradekError
from odradek.security.authentication.credentials import Credentials

logger = logging.getLogger(__name__)

REDIRECT_PATH: Final = "/login/done"
_LOGIN_PATH: Final = "/login"
_UNKNOWN_ADDRESS: Final = "unknown"
# Browsers take a cookie of this name only with Secure, for the whole of this host, and from it alone.
_HOST_PREFIX: Final = "__Host-"
_TOO_MANY: Final = 429
_WORDS_MAX: Final = 100
_OWN_SITES: Final = (None, "same-origin", "none")


class NotLoggedInError(OdradekError):
    """The viewer has to log in at this cluster first."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"log in at cluster {cluster} first")
        self.cluster = cluster


class ConsoleLogins:
    """The logins of a console. `url` is the address by which browsers reach it, where it is not that of the port."""

    def __init__(
        self, sources: Sequence[LoginSource], *, url: str | None = None, provider: OidcProvider | None = None
    ) -> None:
        self._sources = {one.cluster.name: one for one in sources}
        self._slots = {name: ClusterSlots() for name in self._sources}
        self.provider = provider
        self._is_secure = url is not None and urlsplit(url).scheme == "https"
        self.sessions = Sessions(time.monotonic)
        self.tries = LoginTries(time.monotonic)
        self._at_once = ViewerSlots(CONSOLE_LOGINS_AT_ONCE_MAX, "logins")
        self._cookie = ""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post(f"{API}login", self._log_in)
        router.add_post(f"{API}logout", self._log_out)
        router.add_get(_LOGIN_PATH, self._send_to_provider)
        router.add_get(REDIRECT_PATH, self._come_back)

    def start(self, port: int) -> None:
        """Begin with the port that is bound: cookies of one host count at each of its ports."""
        self._cookie = f"{_HOST_PREFIX if self._is_secure else ''}odradek-console-{port}"
        self.sessions.start()

    async def close(self) -> None:
        """End all sessions."""
        await self.sessions.close()

    # --- the viewer -----------------------------------------------------------------------------------------------

    def find(self, request: web.Request, name: str | None) -> ViewerLogin:
        """The viewer's login at a cluster. Raises NoSuchClusterError, NotLoggedInError."""
        source = self._find_source(name)
        login = self.sessions.find_login(self._secret(request), source.cluster.name)
        if login is None:
            raise NotLoggedInError(source.cluster.name)
        return login

    def list_own(self, request: web.Request) -> Mapping[str, ViewerLogin]:
        """The viewer's logins, by the name of the cluster."""
        secret = self._secret(request)
        found = {name: self.sessions.find_login(secret, name) for name in self._sources}
        return {name: login for name, login in found.items() if login is not None}

    def describe(self, request: web.Request) -> list[Document]:
        """The clusters for the page: how to log in at each, and as whom the viewer is."""
        own = self.list_own(request)
        return [
            {
                "name": name,
                # Addresses are for viewers with a login.
                "bootstrap": source.cluster.bootstrap if name in own else "",
                "login": "provider" if source.takes_tokens else "password",
                "user": own[name].user if name in own else None,
            }
            for name, source in self._sources.items()
        ]

    def _find_source(self, name: str | None) -> LoginSource:
        if name is None and len(self._sources) == 1:
            return next(iter(self._sources.values()))
        if name not in self._sources:
            raise NoSuchClusterError(f"there is no such cluster; this console has {', '.join(self._sources)}")
        return self._sources[name]

    def _secret(self, request: web.Request) -> str | None:
        return request.cookies.get(self._cookie)

    # --- by name and password -------------------------------------------------------------------------------------

    async def _log_in(self, request: web.Request) -> web.Response:
        fields = await read_body(request)
        source = self._find_source(fields.text_or_none("cluster"))
        user, password = fields.text("user"), fields.text("password")
        fields.refuse_others()
        credentials = make_credentials(source, user, password)
        response = answer({"user": user})
        try:
            await self._open(request, response, source, credentials, user=user)
        except TooManyTriesError as failure:
            refusal = refuse(_TOO_MANY, str(failure))
            refusal.headers["Retry-After"] = str(failure.pause_seconds)
            return refusal
        except LoginDeniedError:
            return refuse(401, f"cluster {source.cluster.name} refuses this name with this password")
        return response

    async def _open(
        self,
        request: web.Request,
        response: web.StreamResponse,
        source: LoginSource,
        credentials: Credentials,
        *,
        user: str,
        life_seconds: float = float("inf"),
    ) -> None:
        """Log in at the cluster, and let `response` set the cookie. Raises as `log_in`, TooManyTriesError, …"""
        name, address = source.cluster.name, request.remote or _UNKNOWN_ADDRESS
        with self._at_once.take():
            self.tries.begin(name, user, address)
            try:
                cluster = await log_in(source, credentials, self._slots[name])
            except LoginDeniedError as failure:
                logger.warning("%s was refused at cluster %s as %r: %s", address, name, user, failure)
                raise
            self.tries.succeed(name, user, address)
        await self._keep(request, response, cluster, user, life_seconds)
        logger.info("%s logged in at cluster %s as %r", address, name, user)

    async def _keep(
        self,
        request: web.Request,
        response: web.StreamResponse,
        cluster: ConsoleCluster,
        user: str,
        life_seconds: float,
    ) -> None:
        login = ViewerLogin(user, cluster, time.monotonic() + life_seconds)
        try:
            secret = await self.sessions.add(self._secret(request), login)
        except BaseException:
            await cluster.close()
            raise
        response.set_cookie(
            self._cookie, secret, path="/", httponly=True, secure=self._is_secure, samesite="Strict"
        )

    async def _log_out(self, request: web.Request) -> web.Response:
        await self.sessions.remove(self._secret(request))
        response = answer({"user": None})
        response.del_cookie(self._cookie, path="/", httponly=True, secure=self._is_secure, samesite="Strict")
        return response

    # --- by an identity provider ----------------------------------------------------------------------------------

    async def _send_to_provider(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Sec-Fetch-Site") not in _OWN_SITES:
            return refuse(403, "a login begins on the console's own page")
        source = self._find_source(read_query(request).text_or_none("cluster"))
        if self.provider is None or not source.takes_tokens:
            return refuse(400, f"cluster {source.cluster.name} asks for a name and a password")
        url, browser = await self.provider.begin(source.cluster.name)
        response = web.Response(status=303, headers={"Location": url, "Cache-Control": "no-store"})
        # The answer comes from the provider's site, with which a browser sends no cookie that is Strict.
        response.set_cookie(
            self._browser_cookie,
            browser,
            path=self._browser_cookie_path,
            httponly=True,
            secure=self._is_secure,
            samesite="Lax",
            max_age=int(CONSOLE_OIDC_SECONDS_MAX),
        )
        return response

    async def _come_back(self, request: web.Request) -> web.StreamResponse:
        if self.provider is None:
            return refuse(404, "this console has no identity provider")
        query = request.query
        response = web.Response(status=303, headers={"Cache-Control": "no-store"})
        response.del_cookie(
            self._browser_cookie, path=self._browser_cookie_path, httponly=True, secure=self._is_secure
        )
        try:
            if "code" not in query:
                raise OidcRefusedError(
                    f"the identity provider says {query.get('error', 'nothing')[:_WORDS_MAX]!r}"
                )
            login = await self.provider.finish(
                state=query.get("state", ""),
                browser=request.cookies.get(self._browser_cookie, ""),
                code=query["code"],
            )
            source = self._find_source(login.cluster)
            credentials = make_token_credentials(login.access_token, issuer=self.provider.settings.issuer)
            await self._open(
                request, response, source, credentials, user=login.user, life_seconds=login.life_seconds
            )
        except (OidcRefusedError, ProviderFailedError, LoginDeniedError, TooManyTriesError) as failure:
            logger.warning("a login by the identity provider failed: %s", failure)
            return refuse(401, f"the login failed: {failure}")
        several = len(self._sources) > 1
        response.headers["Location"] = f"/#/clusters/{login.cluster}/overview" if several else "/"
        return response

    @property
    def _browser_cookie(self) -> str:
        return f"{self._cookie}-login"

    @property
    def _browser_cookie_path(self) -> str:
        return "/" if self._is_secure else _LOGIN_PATH
