"""OAUTHBEARER at both ends (RFC 7628; KIP-255): one message with a token, the check of it, and the keys for that.

    client  n,[a=USER],^Aauth=Bearer TOKEN^A[KEY=VALUE^A]…^A      server  nothing, the login is complete
                                                                  server  {"status":"invalid_token"}
    client  ^A                                                    server  the login fails

^A is the byte 1. A token is a JSON Web Token (RFC 7519). PyJWT reads it, and `cryptography` checks its signature.
Signature, `exp` and `iat` are required, and `nbf` is kept. Issuer and audience are compared where the settings name
them.

The keys are a JSON Web Key Set (RFC 7517), as an identity provider publishes it. Only public parts of asymmetric keys
are read. A key of another kind is left out: with a shared secret every broker that checks tokens could make them. Each
key allows the algorithms of its type only, so a token cannot choose a weaker one, nor none.

`oauth_documents` has where keys and tokens come from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.foundation.errors import DependencyError
from odradek.security.authentication.exchange import (
    SASL_NAME,
    Login,
    LoginRefused,
    check_authorization,
    unescape_name,
)

INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9._~+/=-]+)")
HEADER_CHARACTERS_MAX: Final = 8192
_NAME_CHARACTERS_MAX: Final = 4096
# A login that is about to end lasts at least so long, since 0 is one without an end.
_LIFETIME_MS_MIN: Final = 1000
KEYS_MAX: Final = 100
_RSA_BITS_MIN: Final = 2048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_PUBLIC_PARTS: Final = ("kty", "n", "e", "crv", "x", "y")


class OauthExchange:
    """The server. After a refusal the client answers the server's text before the login fails; clients are written
    for that. Extensions are not signed, so they are read and left out.
    """

    def __init__(self, check: Callable[[str], Login]) -> None:
        """`check` turns the token into a login, or refuses it by LoginRefused."""
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
    authorization = unescape_name(match["authorization"] or "")
    return authorization, bearer["token"]


class OauthClient:
    """The client shows a token. A refusal is answered, so that the server can end the login."""

    def __init__(self, token: str) -> None:
        self._first: bytes | None = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def answer(self, token: bytes) -> bytes | None:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return b"\x01" if token else None


# A part of a document, each field of which is checked when it is read.
Claims = Mapping[str, Any]


class KeySetUnreadable(Exception):
    """The text is no key set, or none of its keys can be used."""


class VerificationKey(NamedTuple):
    """One public key, and the algorithms that a token signed with it may name."""

    key: Any
    algorithms: tuple[str, ...]


def parse_key_set(data: bytes) -> dict[str, VerificationKey]:
    """The usable keys by their ids; a key without an id has the empty one. Raises KeySetUnreadable, DependencyError."""
    try:
        document = json.loads(data)
        entries = document["keys"]
        if not isinstance(entries, list):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeySetUnreadable("it is no JSON object with a list of keys") from None
    if len(entries) > KEYS_MAX:
        raise KeySetUnreadable(f"it has {len(entries)} keys, and {KEYS_MAX} are allowed")
    keys: dict[str, VerificationKey] = {}
    for entry in entries:
        found = _key(entry) if isinstance(entry, dict) else None
        if found is not None:
            name = entry.get("kid", "")
            if not isinstance(name, str) or name in keys:
                raise KeySetUnreadable("two of its keys have the same id, or an id is no text")
            keys[name] = found
    if not keys:
        raise KeySetUnreadable(f"none of its {len(entries)} keys is a public key for signatures")
    return keys


def _key(entry: Claims) -> VerificationKey | None:
    """None for a key that does not serve to check signatures."""
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ("verify",)):
        return None
    algorithms = _algorithms(entry)
    named = entry.get("alg")
    if named is not None:
        algorithms = tuple(one for one in algorithms if one == named)
    if not algorithms:
        return None
    jwt = require_library()
    kind = {"RSA": jwt.algorithms.RSAAlgorithm, "EC": jwt.algorithms.ECAlgorithm}.get(
        entry["kty"], jwt.algorithms.OKPAlgorithm
    )
    try:
        key = kind.from_jwk({part: entry[part] for part in _PUBLIC_PARTS if part in entry})
    except (jwt.exceptions.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if entry["kty"] == "RSA" and key.key_size < _RSA_BITS_MIN:
        return None
    return VerificationKey(key, algorithms)


def _algorithms(entry: Claims) -> tuple[str, ...]:
    match entry.get("kty"), entry.get("crv"):
        case "RSA", _:
            return _RSA
        case "EC", str(curve) if curve in _CURVES:
            return (_CURVES[curve],)
        case "OKP", "Ed25519":
            return ("EdDSA",)
    return ()


def require_library() -> Any:
    """PyJWT, imported only where a listener has OAUTHBEARER. Raises DependencyError."""
    try:
        import jwt.algorithms

        if not jwt.algorithms.has_crypto:
            raise ImportError
    except ImportError:
        raise DependencyError(
            "OAUTHBEARER needs packages that are not installed: pip install cryptography pyjwt"
        ) from None
    return jwt


class TokenRules(NamedTuple):
    """The claims that a token must have. An empty audience or issuer is not compared."""

    audience: tuple[str, ...]
    issuer: str
    user_claim: str
    scope_claim: str
    clock_skew_seconds: int


# The key of an id, None when there is none; also notes that the id was asked for.
FindKey = Callable[[str], VerificationKey | None]


class TokenCheck:
    """Checks tokens of one listener. `now` is in seconds since 1970."""

    def __init__(self, rules: TokenRules, find_key: FindKey, *, now: Callable[[], float]) -> None:
        self._rules = rules
        self._find_key = find_key
        self._now = now

    def login(self, token: str) -> Login:
        """The login that a token is good for. Raises LoginRefused, whose text shows nothing of the token."""
        jwt = require_library()
        try:
            if len(token.partition(".")[0]) > HEADER_CHARACTERS_MAX:
                raise LoginRefused("the header of the token is too long")
            header = jwt.get_unverified_header(token)
            key = self._key(header)
            claims: Claims = jwt.decode(
                token,
                key.key,
                algorithms=[header["alg"]],
                audience=list(self._rules.audience) or None,
                issuer=self._rules.issuer or None,
                leeway=self._rules.clock_skew_seconds,
                options={
                    "require": ["exp", "iat", self._rules.user_claim],
                    "verify_aud": bool(self._rules.audience),
                    "verify_iss": bool(self._rules.issuer),
                    # Kafka takes a user from any claim, and texts only are compared below.
                    "verify_sub": False,
                },
            )
        except (jwt.exceptions.PyJWTError, RecursionError, OverflowError) as failure:
            # The parser of JSON gives up on depth, and on times that are no numbers of seconds.
            raise LoginRefused(f"the token is refused: {type(failure).__name__}") from None
        return Login(self._user(claims), self._lifetime_ms(claims))

    def _key(self, header: Claims) -> VerificationKey:
        name = header.get("kid", "")
        algorithm = header.get("alg")
        key = self._find_key(name) if isinstance(name, str) else None
        if key is None:
            raise LoginRefused("the token is signed with a key that the key set does not have")
        if algorithm not in key.algorithms:
            raise LoginRefused("the token names an algorithm that is not the key's")
        return key

    def _user(self, claims: Claims) -> str:
        user = claims[self._rules.user_claim]
        if not isinstance(user, str) or not user.strip() or len(user) > _NAME_CHARACTERS_MAX:
            raise LoginRefused(f"the claim {self._rules.user_claim} of the token is no name")
        scope = claims.get(self._rules.scope_claim, "")
        is_list = isinstance(scope, list) and all(isinstance(one, str) for one in scope)
        if not isinstance(scope, str) and not is_list:
            raise LoginRefused(
                f"the claim {self._rules.scope_claim} of the token is neither a text nor a list of texts"
            )
        return user

    def _lifetime_ms(self, claims: Claims) -> int:
        return max(int((float(claims["exp"]) - self._now()) * 1000), _LIFETIME_MS_MIN)
