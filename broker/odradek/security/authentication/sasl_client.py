"""Mechanisms at the client: PLAIN, SCRAM and OAUTHBEARER (RFC 4616, RFC 5802, RFC 7628).

With SCRAM the client also checks that the server knows its password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final, Protocol

from odradek.security.authentication.scram import (
    ITERATIONS_MAX,
    SCRAM_DIGESTS,
    ScramMessageError,
    escaped_name,
    parse_server_first,
    salted_password_of,
    signature,
)

_NONCE_BYTES: Final = 24
_HEADER: Final = "n,,"


class ServerRefused(Exception):
    """The server does not prove what it must, or asks for too much."""


class ClientExchange(Protocol):
    """One login under way: tokens out, tokens in."""

    def answer(self, token: bytes) -> bytes | None:
        """The next token, the first upon b""; None once the server has nothing more to prove. Raises ServerRefused."""
        ...


class PlainClient:
    """Sends the password: only over TLS is it secret."""

    def __init__(self, user: str, password: str) -> None:
        self._token: bytes | None = f"\0{user}\0{password}".encode()

    def answer(self, token: bytes) -> bytes | None:
        sent, self._token = self._token, None
        return sent


class ScramClient:
    """Sends a proof of the password, and takes one of the server."""

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        """With `is_token`, the user is the id of a delegation token, and the password its HMAC in base64."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._bare = f"n={escaped_name(user)},r={self._nonce}" + (",tokenauth=true" if is_token else "")
        self._step = 0
        self._expected = b""

    def answer(self, token: bytes) -> bytes | None:
        self._step += 1
        if self._step == 1:
            return (_HEADER + self._bare).encode()
        if self._step == 2:
            try:
                return self._final(token)
            except ScramMessageError as failure:
                raise ServerRefused(str(failure)) from failure
        if not hmac.compare_digest(token, self._expected):
            raise ServerRefused("the server does not prove that it knows the password: do not trust it")
        return None

    def _final(self, token: bytes) -> bytes:
        first = parse_server_first(token)
        if not first.nonce.startswith(self._nonce) or first.nonce == self._nonce:
            raise ServerRefused("the server answers with a nonce that is not made of the client's")
        if first.iterations > ITERATIONS_MAX:
            raise ServerRefused(
                f"the server asks for {first.iterations} iterations, and {ITERATIONS_MAX} are allowed"
            )
        salted = salted_password_of(
            self._mechanism, self._password, salt=first.salt, iterations=first.iterations
        )
        digest = SCRAM_DIGESTS[self._mechanism]
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={first.nonce}"
        messages = f"{self._bare},{token.decode()},{without_proof}"
        client_key = hmac.digest(salted, b"Client Key", digest)
        mask = signature(self._mechanism, hashlib.new(digest, client_key).digest(), messages)
        proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
        server_key = hmac.digest(salted, b"Server Key", digest)
        proof_of_server = signature(self._mechanism, server_key, messages)
        self._expected = b"v=" + base64.b64encode(proof_of_server)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


class OauthClient:
    """Shows a token. A refusal is answered, so that the server can end the login."""

    def __init__(self, token: str) -> None:
        self._first: bytes | None = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def answer(self, token: bytes) -> bytes | None:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return b"\x01" if token else None
