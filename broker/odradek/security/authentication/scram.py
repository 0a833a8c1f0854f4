"""SCRAM-SHA-256 and SCRAM-SHA-512 at both ends (RFC 5802; KIP-84): credentials, messages, and the two exchanges.

    client  n,,n=USER,r=NONCE                 server  r=NONCE and ours,s=SALT,i=ITERATIONS
    client  c=biws,r=BOTH NONCES,p=PROOF      server  v=SIGNATURE

    salted password  PBKDF2(password, salt, iterations)          made where a password is set, and by clients
    stored key       H(HMAC(salted password, "Client Key"))      kept by the broker: cannot log in
    server key       HMAC(salted password, "Server Key")         kept by the broker: proves the broker to clients

The messages are Kafka's, which are ASCII: a name outside ASCII cannot log in, there and here. So there is nothing that
SASLprep (RFC 4013) would change in a name. Passwords are plain UTF-8, as in Kafka: preparing them would break those
that its clients have set. The salted password is as good as the password. It is never stored or shown.

Kafka refuses an unknown user at the first message, so there one can try which names exist. Here the exchange
continues with a salt and iterations that are made up (`scram_users`), and ends as with a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.security.authentication.exchange import (
    SASL_NAME,
    Login,
    LoginRefused,
    ServerRefused,
    check_authorization,
    escape_name,
    unescape_name,
)

SCRAM_DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES: Final = 24


class ScramMessageError(Exception):
    """A message of SCRAM that cannot be read, or that does not belong to the exchange."""


class ScramCredential(NamedTuple):
    """The values that are kept of a user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @property
    def text(self) -> str:
        """As Kafka writes it into a user's node."""
        return (
            f"salt={_base64(self.salt)},stored_key={_base64(self.stored_key)},"
            f"server_key={_base64(self.server_key)},iterations={self.iterations}"
        )

    @classmethod
    def of_text(cls, text: str) -> ScramCredential:
        """Raises ValueError."""
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            salt, stored_key, server_key = (
                base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored_key, server_key, int(fields["iterations"]))
        except (KeyError, binascii.Error):
            raise ValueError("the credential of a user cannot be read") from None

    @classmethod
    def of_salted_password(
        cls, mechanism: str, *, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        digest = SCRAM_DIGESTS[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", digest)
        return cls(
            salt,
            hashlib.new(digest, client_key).digest(),
            hmac.digest(salted_password, b"Server Key", digest),
            iterations,
        )

    @classmethod
    def of_password(
        cls, mechanism: str, password: str, *, salt: bytes, iterations: int = ITERATIONS_MIN
    ) -> ScramCredential:
        """Takes 1 to 13 ms: not for the event loop of a broker."""
        salted = salt_password(mechanism, password, salt=salt, iterations=iterations)
        return cls.of_salted_password(mechanism, salt=salt, salted_password=salted, iterations=iterations)


def salt_password(mechanism: str, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Takes 1 to 13 ms."""
    return hashlib.pbkdf2_hmac(SCRAM_DIGESTS[mechanism], password.encode(), salt, iterations)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    """Raises ScramMessageError."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramMessageError("a field of a message is not base64") from None


def check_user_name(name: str) -> None:
    """Raises SettingError for a user that no broker lets in, ours or Kafka's."""
    if not re.fullmatch(r"[\x01-\x7f]+", name):
        raise SettingError(
            f"the user {name!r} cannot log in with SCRAM, whose names are ASCII; choose another name, or PLAIN"
        )


# As Kafka's ScramMessages has them.
_VALUE: Final = r"[\x01-+\--\x7f]+"
_NONCE: Final = r"(?P<nonce>[!-+\--~]+)"
_EXTENSIONS: Final = f"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    f"(?P<header>n,(?:a=(?P<authorization>{SASL_NAME}))?,)"
    f"(?P<bare>n=(?P<name>{SASL_NAME}),r={_NONCE}(?P<more>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    f"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r={_NONCE}{_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FIRST: Final = re.compile(
    f"r={_NONCE},s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?"
)


class ClientFirst(NamedTuple):
    """`header` is RFC 5801's, `bare` the message behind it. `extensions` are Kafka's own, as `tokenauth`."""

    header: str
    bare: str
    user: str
    authorization: str
    nonce: str
    extensions: Mapping[str, str]


def parse_client_first(token: bytes) -> ClientFirst:
    """Raises ScramMessageError; also for channel binding, which Kafka does not have, and for names outside ASCII."""
    match = _match_message(_CLIENT_FIRST, token, "first message of the client")
    extensions = dict(part.partition("=")[::2] for part in match["more"].split(",") if part)
    return ClientFirst(
        match["header"],
        match["bare"],
        unescape_name(match["name"]),
        unescape_name(match["authorization"] or ""),
        match["nonce"],
        extensions,
    )


class ClientFinal(NamedTuple):
    """`without_proof` is the message up to the proof."""

    without_proof: str
    binding: bytes
    nonce: str
    proof: bytes


def parse_client_final(token: bytes) -> ClientFinal:
    """Raises ScramMessageError."""
    match = _match_message(_CLIENT_FINAL, token, "last message of the client")
    return ClientFinal(
        match["bare"], from_base64(match["binding"]), match["nonce"], from_base64(match["proof"])
    )


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


def parse_server_first(token: bytes) -> ServerFirst:
    """Raises ScramMessageError."""
    match = _match_message(_SERVER_FIRST, token, "first message of the server")
    return ServerFirst(match["nonce"], from_base64(match["salt"]), int(match["iterations"]))


def server_first(nonce: str, credential: ScramCredential) -> str:
    return f"r={nonce},s={_base64(credential.salt)},i={credential.iterations}"


def _match_message(message: re.Pattern[str], token: bytes, name: str) -> re.Match[str]:
    try:
        match = message.fullmatch(token.decode())
    except UnicodeDecodeError:
        raise ScramMessageError("a message is not UTF-8") from None
    if match is None:
        why = "" if token.isascii() else ": it is not ASCII, which Kafka's SCRAM requires of names"
        raise ScramMessageError(f"the {name} cannot be read{why}")
    return match


def signature(mechanism: str, key: bytes, messages: str) -> bytes:
    """The HMAC over the three messages of an exchange, joined by commas."""
    return hmac.digest(key, messages.encode(), SCRAM_DIGESTS[mechanism])


def proves(mechanism: str, credential: ScramCredential, *, messages: str, proof: bytes) -> bool:
    """Whether `proof` shows that its sender knows the password."""
    expected = signature(mechanism, credential.stored_key, messages)
    if len(proof) != len(expected):
        return False
    client_key = bytes(one ^ other for one, other in zip(expected, proof, strict=True))
    stored = hashlib.new(SCRAM_DIGESTS[mechanism], client_key).digest()
    return hmac.compare_digest(stored, credential.stored_key)


# The credential of a user for a mechanism, or None.
FindCredential = Callable[[str, str], ScramCredential | None]
# The same for a delegation token of this id, and the login that it is good for.
FindToken = Callable[[str, str], tuple[ScramCredential, Login] | None]
# A credential that no password fits, for a mechanism and the name of an unknown user.
MakeCredential = Callable[[str, str], ScramCredential]
_NONCE_BYTES: Final = 24


class ScramExchange:
    """The server. Each exchange has a nonce of its own: what was recorded of another is refused."""

    def __init__(
        self,
        mechanism: str,
        find: FindCredential,
        find_token: FindToken | None = None,
        *,
        made_up: MakeCredential,
    ) -> None:
        self._mechanism = mechanism
        self._made_up = made_up
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
        found = self._find_credential(first)
        self._is_known = found is not None and found.iterations >= ITERATIONS_MIN
        if found is None or not self._is_known:
            found = self._made_up(self._mechanism, first.user)
        self._credential = found
        self._own_nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._server_first = server_first(first.nonce + self._own_nonce, self._credential)
        return self._server_first.encode()

    def _find_credential(self, first: ClientFirst) -> ScramCredential | None:
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
        if self._is_known and self._find_credential(first) is None:
            raise LoginRefused(f"the credential of the user {first.user!r} is deleted")
        is_proven = proves(self._mechanism, self._credential, messages=messages, proof=final.proof)
        if not (is_proven and self._is_known and self._login is not None):
            raise LoginRefused(f"the user {first.user!r} is unknown, or the password is wrong")
        proof = signature(self._mechanism, self._credential.server_key, messages)
        return f"v={base64.b64encode(proof).decode()}".encode(), self._login


_HEADER: Final = "n,,"


class ScramClient:
    """The client sends a proof of the password, and takes one of the server."""

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        """With `is_token`, the user is the id of a delegation token, and the password its HMAC in base64."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._bare = f"n={escape_name(user)},r={self._nonce}" + (",tokenauth=true" if is_token else "")
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
        salted = salt_password(self._mechanism, self._password, salt=first.salt, iterations=first.iterations)
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
