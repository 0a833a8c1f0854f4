"""Which member of a share group has which records, asked at the brokers' ports of --admin (GET /queue-locks).

Kafka's protocol has no request for it. A broker knows of the partitions that it leads, so all brokers are asked. One
that does not answer is an error, and delays the others for `seconds_max` at most.

A login goes over HTTPS alone: a password of SCRAM never leaves a client of Kafka's protocol either.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from odradek.foundation.client_limits import QUEUE_LOCKS_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.security_errors import GroupAuthorizationFailed, SaslAuthenticationFailed
from odradek.security.authentication.oauth_documents import TokenUnavailable

ADMIN_PORT: Final = 9644
_SCHEMES: Final = ("http", "https")
_PATH: Final = "/queue-locks"
_HOST: Final = re.compile(r"[\w.-]+\Z")
_WORDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class RecordLock:
    """Records of one partition that a member has. The lock ends after `time_left_ms`, unless the member renews it."""

    topic: str
    partition: int
    first: int
    last: int
    member_id: str
    delivery_count: int
    time_left_ms: int


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """How many records of one partition are in flight: `acquired` by members, and `available` to be delivered again."""

    topic: str
    partition: int
    in_flight: int
    acquired: int
    available: int


@dataclass(frozen=True, slots=True)
class BrokerLocks:
    """The answer of one broker. With `is_truncated` it has more than it shows."""

    cluster_id: str
    broker_id: int
    is_truncated: bool
    partitions: tuple[RecordsInFlight, ...]
    locks: tuple[RecordLock, ...]


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
        raise ValueError(
            f"{text!r} is no address of a port of --admin; write it like broker-1:{ADMIN_PORT}, [::1]:{ADMIN_PORT} or "
            f"https://broker-1:{ADMIN_PORT}"
        )
    return f"{scheme}://{Address(host, port)}"


async def read_locks(
    urls: Iterable[str], group_id: str, security: HttpSecurity, *, seconds_max: float
) -> dict[str, BrokerLocks | OdradekError]:
    """The answer of each URL, or its error. Raises ConnectionFailed where a login by token has none."""
    try:
        login = await security.authorization()
    except TokenUnavailable as failure:
        raise errors.ConnectionFailed(f"the login has no token: {failure}") from failure
    timeout = ClientTimeout(total=seconds_max)
    async with ClientSession(timeout=timeout) as session:
        reader = _Reader(session, group_id, security.tls, login)
        asked = list(dict.fromkeys(urls))
        return dict(zip(asked, await asyncio.gather(*map(reader.read, asked)), strict=True))


class _Answer(NamedTuple):
    status: int
    body: bytes
    takes_logins: bool


class _Reader:
    def __init__(
        self, session: ClientSession, group_id: str, tls: ssl.SSLContext | None, login: str | None
    ) -> None:
        self._session = session
        self._group_id = group_id
        self._tls = tls
        self._login = login

    async def read(self, url: str) -> BrokerLocks | OdradekError:
        login = self._login if url.startswith("https:") else None
        try:
            answer = await self._get(url, login)
            if answer.status == HTTPStatus.UNAUTHORIZED and login is not None and not answer.takes_logins:
                # The port has TLS, and no users: the certificate counts there.
                answer = await self._get(url, None)
        except (ClientError, OSError) as failure:
            return self._describe_failure(url, failure)
        if answer.status != HTTPStatus.OK:
            return self._describe_refusal(url, answer)
        try:
            return _parse_answer(json.loads(answer.body))
        except (ValueError, TypeError, KeyError, RecursionError):
            return errors.ConnectionFailed(f"{url} answers as no broker of Odradek does")

    async def _get(self, url: str, login: str | None) -> _Answer:
        async with self._session.get(
            url + _PATH,
            params={"group": self._group_id},
            headers={} if login is None else {"Authorization": login},
            ssl=self._tls or True,
            # A login is for this port alone.
            allow_redirects=False,
        ) as response:
            body = b""
            async for part in response.content.iter_chunked(1 << 16):
                body += part
                if len(body) > QUEUE_LOCKS_BYTES_MAX:
                    raise ClientError(f"its answer is larger than {QUEUE_LOCKS_BYTES_MAX} bytes")
            return _Answer(response.status, body, "WWW-Authenticate" in response.headers)

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

    def _describe_refusal(self, url: str, answer: _Answer) -> OdradekError:
        words = " ".join(answer.body[:_WORDS_MAX].decode(errors="replace").split())
        match answer.status:
            case HTTPStatus.UNAUTHORIZED:
                hint = "" if url.startswith("https:") else "; this command logs in by https alone"
                return SaslAuthenticationFailed(f"{url} refuses the login: {words}{hint}")
            case HTTPStatus.FORBIDDEN:
                return GroupAuthorizationFailed(f"{url} refuses: {words}")
            case HTTPStatus.NOT_FOUND:
                return errors.UnsupportedByBroker(
                    f"{url} shows no locks: its broker is older, or it is no broker"
                )
        return errors.ConnectionFailed(f"{url} answers {answer.status}: {words}")


def _describe_reason(failure: ClientConnectorError) -> str:
    if isinstance(failure, ClientConnectorCertificateError):
        refused = failure.certificate_error
        return str(getattr(refused, "verify_message", "") or refused)
    inner = failure.os_error
    return inner.strerror or str(inner) or type(inner).__name__


def _parse_answer(body: object) -> BrokerLocks:
    """Raises TypeError or KeyError for what no broker answers."""
    if not isinstance(body, dict):
        raise TypeError
    return BrokerLocks(
        str(body["cluster_id"]),
        _read_number(body, "broker_id"),
        body["truncated"] is True,
        tuple(
            RecordsInFlight(
                str(row["topic"]),
                _read_number(row, "partition"),
                _read_number(row, "in_flight"),
                _read_number(row, "acquired"),
                _read_number(row, "available"),
            )
            for row in _read_rows(body, "partitions")
        ),
        tuple(
            RecordLock(
                str(row["topic"]),
                _read_number(row, "partition"),
                _read_number(row, "first"),
                _read_number(row, "last"),
                str(row["member_id"]),
                _read_number(row, "delivery_count"),
                _read_number(row, "time_left_ms"),
            )
            for row in _read_rows(body, "locks")
        ),
    )


def _read_rows(body: Mapping[str, object], key: str) -> list[dict[str, object]]:
    rows = body[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError
    return rows


def _read_number(row: Mapping[str, object], key: str) -> int:
    value = row[key]
    if not isinstance(value, int):
        raise TypeError
    return value
