"""The documents of OAUTHBEARER, from files and addresses: brokers read the keys of tokens, clients tokens (RFC 6749).

A document is read with a bound, on a thread. Answers that name another address are refused, so that only the settings
decide where it comes from. Certificates are checked against the authorities of the system.

A key set is followed while the broker runs: keys are rotated without a restart. A file is looked at each second. An
address is asked again after `refresh_ms`. It is also asked when a token names an unknown key, but not more often than
each ten seconds, since every client can name any. While it fails the keys stay, and it is asked again after a pause
that grows. A login never waits for it.

A client's token of an endpoint is kept for most of its life. A file is read at each login: another program renews it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from odradek.foundation.errors import SettingError
from odradek.security.authentication.oauthbearer import (
    KeySetUnreadable,
    VerificationKey,
    parse_key_set,
    require_library,
)

logger = logging.getLogger(__name__)
SCHEMES: Final = ("https", "http", "file")
DOCUMENT_BYTES_MAX: Final = 1024 * 1024
_SECONDS_MAX: Final = 10.0
_SECONDS_BETWEEN_WISHES_MIN: Final = 10.0
# The part of a token's life for which it is used again.
_USED_PART: Final = 0.8
_SECONDS_WITHOUT_END: Final = 60.0


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


def hide_query(url: str) -> str:
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
        raise DocumentUnavailable(f"{hide_query(url)} cannot be read: {_reason(failure)}") from None
    if len(data) > DOCUMENT_BYTES_MAX:
        raise DocumentUnavailable(f"{hide_query(url)} has more than {DOCUMENT_BYTES_MAX} bytes")
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


class KeySetOptions(NamedTuple):
    """`name` is the listener, for messages."""

    name: str
    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KeySet:
    """`follow` reads the keys when it is time, on a thread; `find` is for the event loop. `now` is monotonic."""

    def __init__(self, options: KeySetOptions, *, now: Callable[[], float]) -> None:
        """Raises SettingError for a file without usable keys. An address may come up later than the broker."""
        self._options = options
        self._now = now
        self._keys: dict[str, VerificationKey] = {}
        self._data: bytes | None = None
        self._is_file = is_file(options.url)
        self._is_wished = False
        self._next_at = now()
        self._last_at = now() - _SECONDS_BETWEEN_WISHES_MIN
        self._failures = 0
        self._failure = ""
        if self._is_file:
            try:
                self._take(read_document(options.url))
            except (DocumentUnavailable, KeySetUnreadable) as failure:
                raise SettingError(
                    f"listener {options.name}: OAUTHBEARER has no keys to check tokens with: {failure}"
                ) from None
        else:
            # So that a missing package stops the start, and not the first login.
            require_library()

    def find(self, name: str) -> VerificationKey | None:
        """The key of this id. A token without an id is for the only key there is."""
        found = self._keys.get(name)
        if found is None and not name and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            self._is_wished = True
        return found

    def follow(self) -> bool:
        """Read the keys again when it is time: False, since open connections stay. Not for the event loop."""
        now = self._now()
        is_wished = self._is_wished and now - self._last_at >= _SECONDS_BETWEEN_WISHES_MIN
        if not (self._is_file or now >= self._next_at or (is_wished and not self._failures)):
            return False
        self._is_wished, self._last_at = False, now
        try:
            self._take(read_document(self._options.url))
        except (DocumentUnavailable, KeySetUnreadable) as failure:
            self._failures += 1
            pause_ms = self._options.retry_backoff_ms * 2 ** min(self._failures - 1, 20)
            self._next_at = self._now() + min(pause_ms, self._options.retry_backoff_max_ms) / 1000
            if str(failure) != self._failure:
                self._failure = str(failure)
                logger.error(
                    "listener %s keeps its %d keys for tokens, since the new ones fail: %s",
                    *(self._options.name, len(self._keys), failure),
                )
            return False
        self._failures, self._failure = 0, ""
        self._next_at = self._now() + self._options.refresh_ms / 1000
        return False

    def _take(self, data: bytes) -> None:
        if data == self._data:
            return
        # Whole or not at all: a reader sees one generation.
        self._keys, self._data = parse_key_set(data), data
        logger.info(
            "listener %s has %d keys for tokens from %s",
            *(self._options.name, len(self._keys), hide_query(self._options.url)),
        )


class TokenUnavailable(Exception):
    """There is no token. The text shows no secret."""


class TokenOptions(NamedTuple):
    """`url` is a file or an endpoint. The other three are for an endpoint; the secret is never shown."""

    url: str
    client_id: str
    client_secret: str
    scope: str

    def __repr__(self) -> str:
        return f"TokenOptions({hide_query(self.url)}, {self.client_id})"


class TokenSource:
    """`now` is in seconds since 1970."""

    def __init__(self, options: TokenOptions, *, now: Callable[[], float] = time.time) -> None:
        self.options = options
        self._now = now
        self._kept = ""
        self._kept_until = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """Raises TokenUnavailable."""
        async with self._lock:
            if self._kept and self._now() < self._kept_until:
                return self._kept
            try:
                token = await asyncio.to_thread(self._fetch_token)
            except DocumentUnavailable as failure:
                raise TokenUnavailable(str(failure)) from failure
            if not token or not token.isascii() or any(letter.isspace() for letter in token):
                raise TokenUnavailable(f"{hide_query(self.options.url)} has no token")
            if not is_file(self.options.url):
                self._kept = token
                self._kept_until = self._now() + _USED_PART * self._life_seconds(token)
            return token

    def _fetch_token(self) -> str:
        url, client_id, client_secret, scope = self.options
        if is_file(url):
            return read_document(url).decode(errors="replace").strip()
        # Both are form-encoded before they are joined (RFC 6749, 2.3.1).
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = read_document(url, form=urlencode(form).encode(), headers=headers)
        try:
            document: Any = json.loads(answer)
            return str(document["access_token"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TokenUnavailable(f"{hide_query(url)} does not answer with an access_token") from None

    def _life_seconds(self, token: str) -> float:
        """The rest of its life by its claims. They are not checked: a wrong one only changes when it is fetched."""
        try:
            body = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            return max(float(claims["exp"]) - self._now(), 0.0)
        except (IndexError, ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            return _SECONDS_WITHOUT_END


class GivenToken(TokenSource):
    """One token that a user has, as of a login in a browser. It is used until it ends, and never shown."""

    def __init__(self, token: str, *, issuer: str) -> None:
        super().__init__(TokenOptions(issuer, "", "", ""))
        self._token = token

    async def token(self) -> str:
        return self._token
