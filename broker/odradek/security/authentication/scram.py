"""SCRAM's credentials and messages (RFC 5802; KIP-84): for both ends, without I/O.

    salted password  PBKDF2(password, salt, iterations)          made where a password is set, and by clients
    stored key       H(HMAC(salted password, "Client Key"))      kept by the broker: cannot log in
    server key       HMAC(salted password, "Server Key")         kept by the broker: proves the broker to clients

The messages are Kafka's, which are ASCII: a name outside ASCII cannot log in, there and here. So there is nothing that
SASLprep (RFC 4013) would change in a name. Passwords are plain UTF-8, as in Kafka: preparing them would break those
that its clients have set. The salted password is as good as the password. It is never stored or shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.security.authentication.sasl import SASL_NAME

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
        salted = salted_password_of(mechanism, password, salt=salt, iterations=iterations)
        return cls.of_salted_password(mechanism, salt=salt, salted_password=salted, iterations=iterations)


def salted_password_of(mechanism: str, password: str, *, salt: bytes, iterations: int) -> bytes:
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


def escaped_name(name: str) -> str:
    """A name as a message has it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def plain_name(escaped: str) -> str:
    """The inverse of `escaped_name`."""
    return escaped.replace("=2C", ",").replace("=3D", "=")


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
    match = _matched(_CLIENT_FIRST, token, "first message of the client")
    extensions = dict(part.partition("=")[::2] for part in match["more"].split(",") if part)
    return ClientFirst(
        match["header"],
        match["bare"],
        plain_name(match["name"]),
        plain_name(match["authorization"] or ""),
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
    match = _matched(_CLIENT_FINAL, token, "last message of the client")
    return ClientFinal(
        match["bare"], from_base64(match["binding"]), match["nonce"], from_base64(match["proof"])
    )


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


def parse_server_first(token: bytes) -> ServerFirst:
    """Raises ScramMessageError."""
    match = _matched(_SERVER_FIRST, token, "first message of the server")
    return ServerFirst(match["nonce"], from_base64(match["salt"]), int(match["iterations"]))


def server_first(nonce: str, credential: ScramCredential) -> str:
    return f"r={nonce},s={_base64(credential.salt)},i={credential.iterations}"


def _matched(message: re.Pattern[str], token: bytes, name: str) -> re.Match[str]:
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
