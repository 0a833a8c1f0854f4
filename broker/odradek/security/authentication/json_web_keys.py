"""The public keys that tokens are signed with: a JSON Web Key Set (RFC 7517), as an identity provider publishes it.

Only public parts of asymmetric keys are read. A key of another kind is left out: with a shared secret every broker
that checks tokens could make them. Each key allows the algorithms of its type only, so a token cannot choose a weaker
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from odradek.foundation.errors import DependencyError

KEYS_MAX: Final = 100
_RSA_BITS_MIN: Final = 2048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_PUBLIC_PARTS: Final = ("kty", "n", "e", "crv", "x", "y")


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


def _key(entry: Mapping[str, Any]) -> VerificationKey | None:
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


def _algorithms(entry: Mapping[str, Any]) -> tuple[str, ...]:
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
        import jwt
        import jwt.algorithms

        if not jwt.algorithms.has_crypto:
            raise ImportError
    except ImportError:
        raise DependencyError(
            "OAUTHBEARER needs packages that are not installed; pip install 'odradek[security]'"
        ) from None
    return jwt
