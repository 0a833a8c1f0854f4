"""Delegation tokens: logins that a user makes for programs, which end by themselves (KIP-48).

A token's id is public. Its password is the HMAC of the id with the cluster's secret, and is kept nowhere.
"""

from __future__ import annotations

import base64
import hmac

from odradek.foundation.named_tuple import NamedTuple


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
