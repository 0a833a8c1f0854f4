"""A SASL exchange at the server: tokens in, tokens out, until a user is known or refused.

A mechanism's own file has the exchange. None does I/O, and each takes microseconds, so it runs on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

# The state of a connection that has the id of the delegation token that its client logged in with.
BY_TOKEN: Final = "login by token"

# A name in a message of SCRAM or OAUTHBEARER, as Kafka reads it: ASCII. The bound is ours.
SASL_NAME: Final = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D){1,4096}"


class LoginRefused(Exception):
    """The login fails. The text is for the log of the broker, and a client does not see it."""


class Login(NamedTuple):
    """The user that has logged in, by name. `lifetime_ms` is what is left of the credential, None without an end.

    `token_id` is that of the delegation token that was shown, if any.
    """

    user: str
    lifetime_ms: int | None = None
    token_id: str = ""


def check_authorization(user: str, authorization: str) -> None:
    """Raises LoginRefused for a user that asks to act as another one."""
    if authorization and authorization != user:
        raise LoginRefused(f"the user {user!r} asks to act as {authorization!r}, which is not possible")


class SaslExchange(Protocol):
    """One login under way."""

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        """The token for the client, and the login once it is complete. Raises LoginRefused."""
        ...


# Makes the exchange of a new login.
NewExchange = Callable[[], SaslExchange]
