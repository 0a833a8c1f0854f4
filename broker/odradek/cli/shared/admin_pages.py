"""The pages of a broker's --admin, as /metrics and /readyz: read within bounds, without a proxy and without redirects.

An address is HOST:PORT or a URL. https is verified by the authorities of this machine. A login stands in the URL, as
in https://USER:PASSWORD@HOST:PORT, and is never shown.
"""

from __future__ import annotations

import asyncio
import base64
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Final
from urllib.parse import unquote, urlsplit

import click

from odradek.foundation.errors import OdradekError
from odradek.foundation.top_limits import ADMIN_PAGE_BYTES_MAX, ADMIN_PAGE_SECONDS_MAX

_CHUNK_BYTES: Final = 64 * 1024
OPTION: Final = "--admin"

# The verb gets `admins`: texts, which `parse_admin` reads.
admin_option = click.option(
    OPTION,
    "admins",
    multiple=True,
    metavar="HOST:PORT",
    help="The --admin of a broker, or its URL; may be given for each broker.",
)


class AdminPageUnavailable(OdradekError):
    """A page of a broker's --admin could not be read."""


@dataclass(frozen=True, slots=True)
class AdminAddress:
    """Where a broker serves its pages. `url` has neither a login nor a path."""

    url: str
    login: str | None = field(default=None, repr=False)
    """The value of the header Authorization: a secret."""


@dataclass(frozen=True, slots=True)
class AdminPage:
    """An answer: its status, and its text up to the bound of bytes."""

    status: int
    text: str
    is_shortened: bool


def parse_admin(text: str) -> AdminAddress:
    """The address as a user writes it. Raises click.BadParameter."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None or parts.path.strip("/"):
        shown = text.rpartition("@")[2]
        raise click.BadParameter(
            f"{shown!r} is not of the form HOST:PORT or https://USER:PASSWORD@HOST:PORT", param_hint=OPTION
        )
    login = None
    if parts.username is not None:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {base64.b64encode(given.encode()).decode()}"
    return AdminAddress(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", login)


async def read_admin_page(
    address: AdminAddress,
    path: str,
    *,
    bytes_max: int = ADMIN_PAGE_BYTES_MAX,
    seconds_max: float = ADMIN_PAGE_SECONDS_MAX,
) -> AdminPage:
    """One page, read on a thread. An answer with another status than 200 is one, too. Raises AdminPageUnavailable."""
    return await asyncio.to_thread(_read, address, path, bytes_max, seconds_max)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """A login is sent to no other address."""


def _read(address: AdminAddress, path: str, bytes_max: int, seconds_max: float) -> AdminPage:
    headers = {} if address.login is None else {"Authorization": address.login}
    request = urllib.request.Request(address.url + path, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    deadline = time.monotonic() + seconds_max
    try:
        try:
            answer = opener.open(request, timeout=seconds_max)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            data = bytearray()
            while len(data) <= bytes_max and (more := answer.read(_CHUNK_BYTES)):
                data += more
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no end of the answer within {seconds_max:g} s")
            is_shortened = len(data) > bytes_max
            return AdminPage(
                int(answer.status or 0), bytes(data[:bytes_max]).decode(errors="replace"), is_shortened
            )
    except (OSError, HTTPException, ValueError) as failure:
        reason = failure.reason if isinstance(failure, urllib.error.URLError) else failure
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise AdminPageUnavailable(f"{address.url}{path} cannot be read: {words}") from None
