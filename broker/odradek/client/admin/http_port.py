"""The pages of brokers' ports of --admin: a GET within bounds, with the TLS and the login of the client.

A login goes over HTTPS alone: a password of SCRAM never leaves a client of Kafka's protocol either. It is sent to the
port that was named, and to no other address.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
)

from odradek.client import errors
from odradek.client.addresses import Address
from odradek.client.secured import HttpSecurity
from odradek.foundation.errors import OdradekError
from odradek.security.authentication.oauth_documents import TokenUnavailable

ADMIN_PORT: Final = 9644
_SCHEMES: Final = ("http", "https")
_HOST: Final = re.compile(r"[\w.-]+\Z")
_CHUNK_BYTES: Final = 1 << 16


def format_default_url(host: str, *, has_tls: bool) -> str:
    """The port of --admin of the broker at `host`, where it is the usual one."""
    return f"{_SCHEMES[has_tls]}://{Address(host, ADMIN_PORT)}"


def parse_url(text: str, *, has_tls: bool) -> str:
    """`HOST[:PORT]`, with http:// or https:// before it or, without, as `has_tls` says. Raises ValueError."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = _SCHEMES[has_tls], text.strip()
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port or ADMIN_PORT
        if rest.startswith("["):
            ipaddress.IPv6Address(host)
            host_is_right = True
        else:
            host_is_right = _HOST.match(host) is not None
    except ValueError:
        host_is_right = False
    if not host_is_right or scheme not in _SCHEMES or parts.username is not None or parts.netloc != rest:
        # A login in an address is refused, and is not shown.
        raise ValueError(
            f"{text.rpartition('@')[2]!r} is no address of a port of --admin; write it like broker-1:{ADMIN_PORT}, "
            f"[::1]:{ADMIN_PORT} or https://broker-1:{ADMIN_PORT}"
        )
    return f"{scheme}://{Address(host, port)}"


class Page(NamedTuple):
    """An answer: its status, and its body up to the bound of bytes."""

    status: int
    body: bytes
    is_shortened: bool = False
    takes_logins: bool = False


@asynccontextmanager
async def open_pages(security: HttpSecurity, *, seconds_max: float) -> AsyncIterator[AdminPages]:
    """Asks ports until the end of the block, each request within `seconds_max`.

    Raises ConnectionFailed where a login by token has none.
    """
    try:
        login = await security.authorization()
    except TokenUnavailable as failure:
        raise errors.ConnectionFailed(f"the login has no token: {failure}") from failure
    async with ClientSession(timeout=ClientTimeout(total=seconds_max)) as session:
        yield AdminPages(session, security.tls, login)


class AdminPages:
    """Made by `open_pages`."""

    def __init__(self, session: ClientSession, tls: ssl.SSLContext | None, login: str | None) -> None:
        self._session = session
        self._tls = tls
        self._login = login

    async def get(
        self, url: str, path: str, *, bytes_max: int, params: Mapping[str, str] | None = None
    ) -> Page:
        """The page of this path, whatever its status is. Raises ConnectionFailed and ClientTimeout."""
        login = self._login if url.startswith("https:") else None
        try:
            page = await self._get(url + path, params, login, bytes_max)
            if page.status == HTTPStatus.UNAUTHORIZED and login is not None and not page.takes_logins:
                # The port has TLS, and no users: the certificate counts there.
                page = await self._get(url + path, params, None, bytes_max)
        except (ClientError, OSError) as failure:
            raise self._describe_failure(url, failure) from failure
        return page

    async def _get(
        self, url: str, params: Mapping[str, str] | None, login: str | None, bytes_max: int
    ) -> Page:
        async with self._session.get(
            url,
            params=params,
            headers={} if login is None else {"Authorization": login},
            ssl=self._tls or True,
            # A login is for this port alone.
            allow_redirects=False,
        ) as response:
            body = bytearray()
            async for part in response.content.iter_chunked(_CHUNK_BYTES):
                body += part
                if len(body) > bytes_max:
                    break
            return Page(
                response.status,
                bytes(body[:bytes_max]),
                len(body) > bytes_max,
                "WWW-Authenticate" in response.headers,
            )

    def _describe_failure(self, url: str, failure: Exception) -> OdradekError:
        if isinstance(failure, TimeoutError):
            return errors.ClientTimeout(f"{url} did not answer within {self._session.timeout.total or 0:g} s")
        if isinstance(failure, ClientSSLError):
            return errors.ConnectionFailed(
                f"TLS with {url} failed: {_describe_reason(failure)}; where the port has no TLS, name it as "
                "--admin http://…"
            )
        if isinstance(failure, ClientConnectorError):
            return errors.ConnectionFailed(
                f"{url} cannot be reached: {_describe_reason(failure)}; a broker has this port with --admin, and "
                "--admin of this command names another one"
            )
        hint = "" if url.startswith("https:") else "; where the port has TLS, name it as --admin https://…"
        return errors.ConnectionFailed(f"{url}: {str(failure) or type(failure).__name__}{hint}")


def _describe_reason(failure: ClientConnectorError) -> str:
    if isinstance(failure, ClientConnectorCertificateError):
        refused = failure.certificate_error
        return str(getattr(refused, "verify_message", "") or refused)
    inner = failure.os_error
    return inner.strerror or str(inner) or type(inner).__name__
