"""Delegation tokens as credentials of SCRAM: the user is the token's id, the password its HMAC (KIP-48).

The keys of a token take some milliseconds to make, so they are made at its first login, and kept.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from odradek.foundation.delegation_tokens import DelegationToken, token_password
from odradek.foundation.limits import DELEGATION_TOKENS_MAX
from odradek.security.authentication.sasl import Login
from odradek.security.authentication.sasl_scram import FindToken
from odradek.security.authentication.scram import SALT_BYTES, ScramCredential

_USER_PREFIX: Final = "User:"
_LIFETIME_MS_MIN: Final = 1


def tokens_as_credentials(
    current: Callable[[], Mapping[str, DelegationToken]], secret: str, *, now_ms: Callable[[], int]
) -> FindToken:
    """Finds a token that has not ended among those that `current` gives at the moment of a login."""
    kept: OrderedDict[tuple[str, str], ScramCredential] = OrderedDict()

    def find(token_id: str, mechanism: str) -> tuple[ScramCredential, Login] | None:
        token, now = current().get(token_id), now_ms()
        if token is None or token.has_ended(now):
            return None
        key = (token_id, mechanism)
        credential = kept.get(key)
        if credential is None:
            salt = hmac.digest(secret.encode(), f"{mechanism} {token_id}".encode(), "sha256")[:SALT_BYTES]
            credential = ScramCredential.of_password(mechanism, token_password(secret, token_id), salt=salt)
            kept[key] = credential
            if len(kept) > DELEGATION_TOKENS_MAX:
                kept.popitem(last=False)
        lifetime_ms = max(token.expiry_ms - now, _LIFETIME_MS_MIN)
        return credential, Login(token.owner.removeprefix(_USER_PREFIX), lifetime_ms, token_id)

    return find
