"""Delegation tokens: logins that a user makes for programs, which end by themselves (KIP-48).

A token's id is public. Its password is the HMAC of the id with the cluster's secret, and is kept nowhere. A client logs
in by SCRAM: the user is the id, the password the HMAC in base64. The keys of a token take some milliseconds to make, so
they are made at its first login, and kept.
"""

from __future__ import annotations

import base64
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.foundation.limits import DELEGATION_TOKENS_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.security.authentication.exchange import Login

if TYPE_CHECKING:
    from odradek.security.authentication.scram import FindToken

# The state of a connection that has the id of the delegation token that its client logged in with.
BY_TOKEN: Final = "login by token"
_USER_PREFIX: Final = "User:"
_LIFETIME_MS_MIN: Final = 1


class DelegationToken(NamedTuple):
    """The principals are texts as `User:alice`; times are in milliseconds since 1970."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expiry_ms: int

    @property
    def end_ms(self) -> int:
        """The last moment at which it is good, unless it is renewed."""
        return min(self.max_ms, self.expiry_ms)

    def has_ended(self, now_ms: int) -> bool:
        return self.end_ms < now_ms

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal owns, has asked for or may renew it."""
        return principal in self.principals

    @property
    def principals(self) -> tuple[str, ...]:
        """Its owner, its requester and its renewers."""
        return (self.owner, self.requester, *self.renewers)


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret part of a token, as requests name it."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The text that a client logs in with, as the password of SCRAM."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()


def tokens_as_credentials(
    current: Callable[[], Mapping[str, DelegationToken]], secret: str, *, now_ms: Callable[[], int]
) -> FindToken:
    """Finds a token that has not ended among those that `current` gives at the moment of a login."""
    # Requests that manage tokens need none of it.
    from odradek.security.authentication.scram import SALT_BYTES, ScramCredential

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
