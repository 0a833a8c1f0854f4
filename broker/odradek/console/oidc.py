"""Logins by an identity provider: OpenID Connect with an authorization code and PKCE (RFC 7636).

    browser  -> provider   a login, please         state, nonce, the hash of a verifier
    provider -> browser -> console                 state, code
    console  -> provider                           code, verifier
    provider -> console                            ID token, access token

`state` is for the browser that began: a cookie there has the other half, so no other browser can end the login. The ID
token is checked as brokers check tokens. The access token is the login at the brokers, which check it themselves.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from odradek.foundation.console_limits import (
    CONSOLE_OIDC_ADDRESSES_SECONDS,
    CONSOLE_OIDC_SECONDS_MAX,
    CONSOLE_OIDC_WAITING_MAX,
    CONSOLE_SESSION_SECONDS_MAX,
)
from odradek.foundation.errors import OdradekError
from odradek.security.authentication.exchange import LoginRefused
from odradek.security.authentication.oauth_documents import (
    DocumentUnavailable,
    KeySet,
    KeySetOptions,
    read_document,
)
from odradek.security.authentication.oauthbearer import TokenCheck, TokenRules

_DISCOVERY: Final = "/.well-known/openid-configuration"
_SECRET_BYTES: Final = 32
_CLOCK_SKEW_SECONDS: Final = 30
_KEYS_REFRESH_MS: Final = 3_600_000
_KEYS_BACKOFF_MS: Final = 100
_KEYS_BACKOFF_MS_MAX: Final = 10_000
# Claims that have a name for people, the best first.
_NAMES: Final = ("preferred_username", "email")


class ProviderFailedError(OdradekError):
    """The identity provider does not answer, or not as one does."""


class OidcRefusedError(OdradekError):
    """The login is refused: by the provider, or since its answer does not fit."""


class OidcSettings(NamedTuple):
    """What the provider knows of this console. `redirect_url` is where it sends browsers back to."""

    issuer: str
    client_id: str
    redirect_url: str
    scope: str = "openid"
    client_secret: str = ""

    def __repr__(self) -> str:
        return f"OidcSettings({self.issuer}, {self.client_id})"


class OidcLogin(NamedTuple):
    """A viewer whom the provider knows. The token is never shown."""

    cluster: str
    user: str
    access_token: str
    life_seconds: float

    def __repr__(self) -> str:
        return f"OidcLogin({self.cluster}, {self.user})"


class _Addresses(NamedTuple):
    """What the provider publishes, and its keys."""

    authorization: str
    token: str
    keys: KeySet
    until: float


class _Waiting(NamedTuple):
    """A browser that was sent to the provider."""

    cluster: str
    browser: str
    verifier: str
    nonce: str
    until: float


class OidcProvider:
    """One provider. `now` is in seconds, and never goes back."""

    def __init__(self, settings: OidcSettings, *, now: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._now = now
        self._addresses: _Addresses | None = None
        self._asking = asyncio.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    async def begin(self, cluster: str) -> tuple[str, str]:
        """The address to send a browser to, and the secret that it has to bring back. Raises ProviderFailedError."""
        addresses = await self._find_addresses()
        state, browser, verifier, nonce = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(4))
        until = self._now() + CONSOLE_OIDC_SECONDS_MAX
        self._waiting[state] = _Waiting(cluster, browser, verifier, nonce, until)
        while len(self._waiting) > CONSOLE_OIDC_WAITING_MAX:
            self._waiting.popitem(last=False)
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_url,
                "scope": self.settings.scope,
                "state": state,
                "nonce": nonce,
                "code_challenge": _encode(hashlib.sha256(verifier.encode()).digest()),
                "code_challenge_method": "S256",
            }
        )
        return f"{addresses.authorization}{'&' if '?' in addresses.authorization else '?'}{query}", browser

    async def finish(self, *, state: str, browser: str, code: str) -> OidcLogin:
        """The login of a browser that came back. Raises OidcRefusedError, ProviderFailedError."""
        waiting = self._waiting.pop(state, None)
        if (
            waiting is None
            or waiting.until <= self._now()
            or not compare_digest(waiting.browser.encode(), browser.encode(errors="backslashreplace"))
        ):
            raise OidcRefusedError("this login was begun by another browser, or too long ago; begin again")
        answer = await self._exchange(code, waiting.verifier)
        identity, token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(identity, str) or not isinstance(token, str) or not _is_token(token):
            raise ProviderFailedError("the identity provider gave no ID token, or no access token")
        user = await self._check(identity, waiting.nonce)
        return OidcLogin(waiting.cluster, user, token, _read_life(answer.get("expires_in")))

    # --- the provider ---------------------------------------------------------------------------------------------

    async def _find_addresses(self) -> _Addresses:
        async with self._asking:
            if self._addresses is None or self._addresses.until <= self._now():
                self._addresses = await self._discover()
            return self._addresses

    async def _discover(self) -> _Addresses:
        issuer = self.settings.issuer
        document = await _read(issuer.rstrip("/") + _DISCOVERY)
        if document.get("issuer") != issuer:
            raise ProviderFailedError(f"{issuer} says that its issuer is {document.get('issuer')!r}")
        authorization, token, keys = (
            self._read_address(document, name)
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        )
        options = KeySetOptions(
            "of the console", keys, _KEYS_REFRESH_MS, _KEYS_BACKOFF_MS, _KEYS_BACKOFF_MS_MAX
        )
        return _Addresses(
            authorization,
            token,
            KeySet(options, now=self._now),
            self._now() + CONSOLE_OIDC_ADDRESSES_SECONDS,
        )

    def _read_address(self, document: Mapping[str, object], name: str) -> str:
        """An address of the provider, which is as secret as that of the issuer."""
        found = document.get(name)
        schemes = ("https://",) if self.settings.issuer.startswith("https:") else ("https://", "http://")
        if not isinstance(found, str) or not found.startswith(schemes):
            raise ProviderFailedError(f"{self.settings.issuer} has no {name} that can be used")
        return found

    async def _exchange(self, code: str, verifier: str) -> Mapping[str, object]:
        """The provider's answer to a code."""
        settings = self.settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_url,
            "client_id": settings.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if settings.client_secret:
            # Both are form-encoded before they are joined (RFC 6749, 2.3.1).
            pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        addresses = await self._find_addresses()
        return await _read(addresses.token, form=urlencode(form).encode(), headers=headers)

    async def _check(self, identity: str, nonce: str) -> str:
        """The user of an ID token. Raises OidcRefusedError."""
        settings, keys = self.settings, (await self._find_addresses()).keys
        rules = TokenRules((settings.client_id,), settings.issuer, "sub", "scope", _CLOCK_SKEW_SECONDS)
        check = TokenCheck(rules, keys.find, now=time.time)
        await asyncio.to_thread(keys.follow)
        try:
            subject = check.login(identity).user
        except LoginRefused:
            # Its key may be a new one, which `find` has noted as wanted.
            await asyncio.to_thread(keys.follow)
            try:
                subject = check.login(identity).user
            except LoginRefused as refused:
                raise OidcRefusedError(f"the ID token is refused: {refused}") from refused
        claims = _read_claims(identity)
        given = claims.get("nonce")
        if not isinstance(given, str) or not compare_digest(given.encode(), nonce.encode()):
            raise OidcRefusedError("the ID token is for another login")
        if claims.get("azp", settings.client_id) != settings.client_id:
            raise OidcRefusedError("the ID token is for another client of the provider")
        named = next((one for key in _NAMES if isinstance(one := claims.get(key), str) and one), subject)
        return named if named == subject else f"{named} ({subject})"


async def _read(
    url: str, *, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """A document of the provider, on a thread. Raises ProviderFailedError."""
    try:
        document = json.loads(await asyncio.to_thread(read_document, url, form=form, headers=headers))
    except DocumentUnavailable as failure:
        raise ProviderFailedError(f"the identity provider does not answer: {failure}") from failure
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ProviderFailedError("the identity provider answers with no JSON object")
    return document


def _read_claims(token: str) -> Mapping[str, object]:
    """The claims of a token whose signature was checked."""
    body = token.split(".")[1]
    claims: Mapping[str, object] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def _read_life(given: object) -> float:
    """The seconds for which a token is good; as long as any session where the provider does not say it."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
        return CONSOLE_SESSION_SECONDS_MAX
    return float(given)


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
