"""OAUTHBEARER at the server (RFC 7628; KIP-255): one message with a token.

    client  n,[a=USER],^Aauth=Bearer TOKEN^A[KEY=VALUE^A]…^A      server  nothing, the login is complete
                                                                  server  {"status":"invalid_token"}
    client  ^A                                                    server  the login fails

^A is the byte 1. After a refusal the client answers the server's text before the login fails; clients are written for
that. Extensions are not signed, so they are read and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from odradek.security.authentication.sasl import SASL_NAME, Login, LoginRefused, check_authorization

INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9._~+/=-]+)")


class OauthExchange:
    """One login with a token, which `check` turns into a login, or refuses by LoginRefused."""

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
