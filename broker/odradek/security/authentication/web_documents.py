"""Reads one document of a given address, a file or over HTTP: for the keys of tokens and for tokens themselves.

It blocks: call it on a thread. Answers that name another address are refused, so that only the settings decide where
the document comes from. Certificates are checked against the authorities of the system.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from odradek.foundation.errors import SettingError

SCHEMES: Final = ("https", "http", "file")
DOCUMENT_BYTES_MAX: Final = 1024 * 1024
_SECONDS_MAX: Final = 10.0


class DocumentUnavailable(Exception):
    """The document cannot be read. The text has the address, without a user or a query."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def check_address(url: str, *, key: str) -> str:
    """`url`, the value of `key`. Raises SettingError for one that cannot be read."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not (parts.path if parts.scheme == "file" else parts.hostname):
        raise SettingError(f"{key} must be an address as https://HOST/PATH, or file:///PATH")
    if parts.username or parts.password:
        raise SettingError(f"{key} must not have a user or a password in it")
    return url


def is_file(url: str) -> bool:
    return urlsplit(url).scheme == "file"


def shown(url: str) -> str:
    """The address for people: a query may hold a secret."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def read_document(url: str, *, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes at `url`; with a `form`, the answer to it. Raises DocumentUnavailable."""
    try:
        if is_file(url):
            with Path(unquote(urlsplit(url).path)).open("rb") as file:
                data = file.read(DOCUMENT_BYTES_MAX + 1)
        else:
            data = _over_http(url, form, headers or {})
    except (OSError, HTTPException, ValueError) as failure:
        raise DocumentUnavailable(f"{shown(url)} cannot be read: {_reason(failure)}") from None
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentUnavailable(f"{shown(url)} has more than {DOCUMENT_BYTES_MAX} bytes")
    return data


def _over_http(url: str, form: bytes | None, headers: Mapping[str, str]) -> bytes:
    request = urllib.request.Request(url, data=form, headers={"Accept": "application/json", **headers})
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(request, timeout=_SECONDS_MAX) as answer:
        data: bytes = answer.read(DOCUMENT_BYTES_MAX + 1)
    return data


def _reason(failure: Exception) -> str:
    if isinstance(failure, urllib.error.HTTPError):
        return f"HTTP status {failure.code}"
    if isinstance(failure, urllib.error.URLError):
        return str(failure.reason)
    return getattr(failure, "strerror", None) or type(failure).__name__
