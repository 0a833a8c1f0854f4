"""A login at the client: SaslHandshake and SaslAuthenticate, on a new connection or again on one in use (KIP-368)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.network.secured.options import Credentials
from odradek.security.authentication.sasl_client import ServerRefused
from odradek.security.authentication.token_source import TokenUnavailable
from odradek.wire.protocol.api import ApiKey

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
_TOKENS_MAX: Final = 8
# A login is renewed after this part of its life: not by all clients at once, and before it ends. As Kafka's clients.
_RENEWED_AFTER: Final = (0.85, 0.95)

# Sends a request in a version and gives the answer. Raises OSError when the connection is lost.
Ask = Callable[..., Awaitable[Any]]


class LoginFailed(ConnectionError):
    """The broker refuses the login, or does not prove itself."""


async def log_in(ask: Ask, credentials: Credentials) -> float | None:
    """Log in; after how many seconds to do so again, None when the login does not end.

    Raises LoginFailed, and OSError when the connection is lost.
    """
    try:
        exchange = await credentials.new_exchange()
    except TokenUnavailable as failure:
        raise LoginFailed(f"there is no token to log in with: {failure}") from failure
    answer = await ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=credentials.mechanism)
    if int(answer.error_code):
        raise LoginFailed(
            f"the broker has no logins with {credentials.mechanism}, only with {', '.join(answer.mechanisms)}; "
            "set sasl.mechanism to one of these"
        )
    received, lifetime_ms = b"", 0
    for _ in range(_TOKENS_MAX):
        try:
            token = exchange.answer(received)
        except ServerRefused as refused:
            raise LoginFailed(f"the login of {credentials.shown} is given up: {refused}") from refused
        if token is None:
            part = random.uniform(*_RENEWED_AFTER)
            return lifetime_ms / 1000 * part if lifetime_ms > 0 else None
        answer = await ask(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, auth_bytes=token)
        if int(answer.error_code):
            raise LoginFailed(
                f"the broker refuses the login of {credentials.shown} with {credentials.mechanism}: "
                f"{answer.error_message}; check the {credentials.what_to_check}"
            )
        received = bytes(answer.auth_bytes)
        lifetime_ms = round(answer.session_lifetime.total_seconds() * 1000)
    raise LoginFailed("the broker does not come to an end with the login")
