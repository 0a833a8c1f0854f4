"""Where a client gets its token for OAUTHBEARER: from a file, or from an endpoint by its credentials (RFC 6749).

A token of an endpoint is kept for most of its life. A file is read at each login: another program renews it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from odradek.security.authentication.web_documents import DocumentUnavailable, is_file, read_document, shown

# The part of a token's life for which it is used again.
_USED_PART: Final = 0.8
_SECONDS_WITHOUT_END: Final = 60.0


class TokenUnavailable(Exception):
    """There is no token. The text shows no secret."""


class TokenOptions(NamedTuple):
    """`url` is a file or an endpoint. The other three are for an endpoint; the secret is never shown."""

    url: str
    client_id: str
    client_secret: str
    scope: str

    def __repr__(self) -> str:
        return f"TokenOptions({shown(self.url)}, {self.client_id})"


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
                token = await asyncio.to_thread(self._fetched)
            except DocumentUnavailable as failure:
                raise TokenUnavailable(str(failure)) from failure
            if not token or not token.isascii() or any(letter.isspace() for letter in token):
                raise TokenUnavailable(f"{shown(self.options.url)} has no token")
            if not is_file(self.options.url):
                self._kept = token
                self._kept_until = self._now() + _USED_PART * self._life_seconds(token)
            return token

    def _fetched(self) -> str:
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
            raise TokenUnavailable(f"{shown(url)} does not answer with an access_token") from None

    def _life_seconds(self, token: str) -> float:
        """The rest of its life by its claims. They are not checked: a wrong one only changes when it is fetched."""
        try:
            body = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            return max(float(claims["exp"]) - self._now(), 0.0)
        except (IndexError, ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            return _SECONDS_WITHOUT_END
