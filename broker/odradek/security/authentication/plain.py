"""PLAIN at both ends (RFC 4616): one token with the user and the password.

    client  [USER] NUL USER NUL PASSWORD      server  nothing, the login is complete

The password itself is sent, so it is secret over TLS only.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from odradek.security.authentication.exchange import Login, LoginRefused, check_authorization

_PARTS = 3


class PlainExchange:
    """The server, with the users and passwords of `sasl.jaas.config`.

    Compares in constant time, also for users that do not exist. Names and passwords are compared byte by byte: Kafka
    prepares none of them.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        parts = token.split(b"\0")
        if len(parts) != _PARTS:
            raise LoginRefused(f"the token of PLAIN has {len(parts)} parts instead of {_PARTS}")
        try:
            authorization, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginRefused("the token of PLAIN is not UTF-8") from None
        if not user or not password:
            raise LoginRefused("the token of PLAIN has no user or no password")
        known = self._passwords.get(user)
        is_equal = compare_digest(
            password.encode(), (known if known is not None else password + "?").encode()
        )
        if known is None or not is_equal:
            raise LoginRefused(f"the user {user!r} is unknown, or the password is wrong")
        check_authorization(user, authorization)
        return b"", Login(user)


class PlainClient:
    """The client."""

    def __init__(self, user: str, password: str) -> None:
        self._token: bytes | None = f"\0{user}\0{password}".encode()

    def answer(self, token: bytes) -> bytes | None:
        sent, self._token = self._token, None
        return sent
