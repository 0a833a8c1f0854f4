"""OAUTHBEARER at one listener: its logins, its rules for tokens and its key set, from `sasl.oauthbearer.*`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.foundation.errors import SettingError
from odradek.security.authentication.json_web_tokens import TokenCheck, TokenRules
from odradek.security.authentication.key_set import KeySet, KeySetOptions
from odradek.security.authentication.sasl import (
    SASL_NAME,
    Login,
    LoginRefused,
    NewExchange,
    check_authorization,
)
from odradek.security.authentication.web_documents import check_address

if TYPE_CHECKING:
    from odradek.foundation.settings import Settings

logger = logging.getLogger(__name__)

INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9._~+/=-]+)")

MECHANISM: Final = "OAUTHBEARER"
_PREFIX: Final = "sasl.oauthbearer."
_URL: Final = f"{_PREFIX}jwks.endpoint.url"


class OauthExchange:
    """One login with OAUTHBEARER at the server (RFC 7628; KIP-255): one message with a token.

        client  n,[a=USER],^Aauth=Bearer TOKEN^A[KEY=VALUE^A]…^A      server  nothing, the login is complete
                                                                      server  {"status":"invalid_token"}
        client  ^A                                                    server  the login fails

    ^A is the byte 1. After a refusal the client answers the server's text before the login fails; clients are written
    for that. Extensions are not signed, so they are read and left out.

    `check` turns the token into a login, or refuses it by LoginRefused.
    """

    def __init__(self, check: Callable[[str], Login]) -> None:
        self._check = check
        self._refusal: LoginRefused | None = None

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        if self._refusal is not None:
            raise self._refusal
        authorization, shown = _parse(token)
        try:
            login = self._check(shown)
            check_authorization(login.user, authorization)
        except LoginRefused as refused:
            self._refusal = refused
            return INVALID_TOKEN, None
        return b"", login


def _parse(message: bytes) -> tuple[str, str]:
    """(the authorization, the token). Raises LoginRefused."""
    try:
        match = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefused("the message of OAUTHBEARER cannot be read")
    pairs = [pair.partition("=") for pair in match["pairs"].split("\x01") if pair]
    found = [value for name, _, value in pairs if name == "auth"]
    bearer = _BEARER.fullmatch(found[0].strip()) if len(found) == 1 else None
    if bearer is None:
        raise LoginRefused("the message of OAUTHBEARER has no token")
    authorization = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return authorization, bearer["token"]


def listener_oauth(
    settings: Settings, listener_name: str, *, now: Callable[[], float] = time.time
) -> tuple[NewExchange, KeySet]:
    """The exchange of new logins, and the keys to follow. Raises SettingError, also without a source of keys.

    `now` is in seconds since 1970.
    """

    def value(name: str) -> Any:
        return settings.listener_value(listener_name, _PREFIX + name, mechanism=MECHANISM)

    url = value("jwks.endpoint.url")
    if not url:
        raise SettingError(
            f"listener {listener_name} has {MECHANISM} and no keys to check tokens with; give {_URL}"
        )
    rules = TokenRules(
        audience=tuple(value("expected.audience") or ()),
        issuer=value("expected.issuer") or "",
        user_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
        clock_skew_seconds=max(value("clock.skew.seconds"), 0),
    )
    if not (rules.audience and rules.issuer):
        logger.warning(
            "listener %s takes tokens of any %s that its keys have signed; "
            "set %sexpected.issuer and %sexpected.audience",
            *(listener_name, "audience" if rules.issuer else "issuer", _PREFIX, _PREFIX),
        )
    keys = KeySet(
        KeySetOptions(
            listener_name,
            check_address(url, key=_URL),
            refresh_ms=value("jwks.endpoint.refresh.ms"),
            retry_backoff_ms=value("jwks.endpoint.retry.backoff.ms"),
            retry_backoff_max_ms=value("jwks.endpoint.retry.backoff.max.ms"),
        ),
        now=time.monotonic,
    )
    return partial(OauthExchange, TokenCheck(rules, keys.find, now=now).login), keys
