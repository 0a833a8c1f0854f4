"""PLAIN (RFC 4616): one token with the user and the password, both known from `sasl.jaas.config`."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from odradek.security.authentication.sasl import Login, LoginRefused, check_authorization

_PARTS = 3


class PlainExchange:
    """Compares in constant time, also for users that do not exist. Names and passwords are compared byte by byte:
    Kafka prepares none of them.
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
