"""One login with SASL, at both ends: tokens in, tokens out, until a user is known or refused.

`plain`, `scram` and `oauthbearer` have the mechanisms, each with its server and its client. None does I/O, and
all run on the event loop. A step takes microseconds; SCRAM takes milliseconds where it makes keys of a password. A
client does so at each login, and a server at the first login with a delegation token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

# A name in a message of SCRAM or OAUTHBEARER, as Kafka reads it: ASCII. The bound is ours.
SASL_NAME: Final = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D){1,4096}"


def escape_name(name: str) -> str:
    """A name as a message has it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(escaped: str) -> str:
    """The inverse of `escape_name`."""
    return escaped.replace("=2C", ",").replace("=3D", "=")


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
    """One login under way, at the server."""

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        """The token for the client, and the login once it is complete. Raises LoginRefused."""
        ...


# Makes the exchange of a new login.
NewExchange = Callable[[], SaslExchange]


class ServerRefused(Exception):
    """The server does not prove what it must, or asks for too much."""


class ClientExchange(Protocol):
    """One login under way, at the client."""

    def answer(self, token: bytes) -> bytes | None:
        """The next token, the first upon b""; None once the server has nothing more to prove. Raises ServerRefused."""
        ...
