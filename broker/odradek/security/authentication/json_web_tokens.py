"""Checks a token of OAUTHBEARER: a JSON Web Token (RFC 7519) that is signed with a key of the key set.

The signature, `exp` and `iat` are required, and `nbf` is kept. Issuer and audience are compared where the settings name
them. The algorithm must be one of the key's own: neither none, nor a shared secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.security.authentication.json_web_keys import VerificationKey
from odradek.security.authentication.sasl import Login, LoginRefused

HEADER_CHARACTERS_MAX: Final = 8192
_NAME_CHARACTERS_MAX: Final = 4096
# A login that is about to end lasts at least so long, since 0 is one without an end.
_LIFETIME_MS_MIN: Final = 1000


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
        import jwt

        try:
            if len(token.partition(".")[0]) > HEADER_CHARACTERS_MAX:
                raise LoginRefused("the header of the token is too long")
            header = jwt.get_unverified_header(token)
            key = self._key(header)
            claims: Mapping[str, Any] = jwt.decode(
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

    def _key(self, header: Mapping[str, Any]) -> VerificationKey:
        name = header.get("kid", "")
        algorithm = header.get("alg")
        key = self._find_key(name) if isinstance(name, str) else None
        if key is None:
            raise LoginRefused("the token is signed with a key that the key set does not have")
        if algorithm not in key.algorithms:
            raise LoginRefused("the token names an algorithm that is not the key's")
        return key

    def _user(self, claims: Mapping[str, Any]) -> str:
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

    def _lifetime_ms(self, claims: Mapping[str, Any]) -> int:
        return max(int((float(claims["exp"]) - self._now()) * 1000), _LIFETIME_MS_MIN)
