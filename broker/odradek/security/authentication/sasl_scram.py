"""SCRAM-SHA-256 and SCRAM-SHA-512 at the server. An unknown user is refused at the end, as a wrong password is.

    client  n,,n=USER,r=NONCE                 server  r=NONCE and ours,s=SALT,i=ITERATIONS
    client  c=biws,r=BOTH NONCES,p=PROOF      server  v=SIGNATURE

Kafka refuses an unknown user at the first message, so there one can try which names exist. Here the exchange
continues with a salt and iterations that are made up (`unknown_users`).
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Final

from odradek.security.authentication.sasl import Login, LoginRefused, check_authorization
from odradek.security.authentication.scram import (
    ITERATIONS_MIN,
    ClientFirst,
    ScramCredential,
    ScramMessageError,
    parse_client_final,
    parse_client_first,
    proves,
    server_first,
    signature,
)
from odradek.security.authentication.unknown_users import UnknownUsers

# The credential of a user for a mechanism, or None.
FindCredential = Callable[[str, str], ScramCredential | None]
# The same for a delegation token of this id, and the login that it is good for.
FindToken = Callable[[str, str], tuple[ScramCredential, Login] | None]

_NONCE_BYTES: Final = 24


class ScramExchange:
    """One exchange, with a nonce of its own: what was recorded of another is refused."""

    def __init__(
        self,
        mechanism: str,
        find: FindCredential,
        find_token: FindToken | None = None,
        *,
        unknown_users: UnknownUsers,
    ) -> None:
        self._mechanism = mechanism
        self._unknown_users = unknown_users
        self._find = find
        self._find_token = find_token
        self._login: Login | None = None
        self._first: ClientFirst | None = None
        self._is_known = False
        self._credential: ScramCredential
        self._own_nonce = ""
        self._server_first = ""

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        try:
            if self._first is None:
                return self._answer_first(parse_client_first(token)), None
            return self._answer_final(token, self._first)
        except ScramMessageError as failure:
            raise LoginRefused(f"{self._mechanism}: {failure}") from failure

    def _answer_first(self, first: ClientFirst) -> bytes:
        check_authorization(first.user, first.authorization)
        self._first = first
        found = self._found(first)
        self._is_known = found is not None and found.iterations >= ITERATIONS_MIN
        if found is None or not self._is_known:
            found = self._unknown_users.credential(self._mechanism, first.user)
        self._credential = found
        self._own_nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._server_first = server_first(first.nonce + self._own_nonce, self._credential)
        return self._server_first.encode()

    def _found(self, first: ClientFirst) -> ScramCredential | None:
        if first.extensions.get("tokenauth", "").lower() != "true":
            self._login = Login(first.user)
            return self._find(first.user, self._mechanism)
        token = None if self._find_token is None else self._find_token(first.user, self._mechanism)
        if token is None:
            return None
        credential, self._login = token
        return credential

    def _answer_final(self, token: bytes, first: ClientFirst) -> tuple[bytes, Login]:
        final = parse_client_final(token)
        if final.binding != first.header.encode():
            raise LoginRefused("the last message repeats another header than the first had")
        # Its end is what must be ours, as for Kafka: librdkafka before 2.6.1 repeats its own beginning.
        if not final.nonce.endswith(self._own_nonce):
            raise LoginRefused("the last message has another nonce: it belongs to another exchange")
        messages = f"{first.bare},{self._server_first},{final.without_proof}"
        # Deleted between the two messages; a changed one still serves this exchange.
        if self._is_known and self._found(first) is None:
            raise LoginRefused(f"the credential of the user {first.user!r} is deleted")
        is_proven = proves(self._mechanism, self._credential, messages=messages, proof=final.proof)
        if not (is_proven and self._is_known and self._login is not None):
            raise LoginRefused(f"the user {first.user!r} is unknown, or the password is wrong")
        proof = signature(self._mechanism, self._credential.server_key, messages)
        return f"v={base64.b64encode(proof).decode()}".encode(), self._login
