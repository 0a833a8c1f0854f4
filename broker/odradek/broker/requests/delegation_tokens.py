"""Shared by the four APIs of delegation tokens: whether a client may ask, and the token of an HMAC (KIP-48, KIP-373).

As in Kafka, tokens are for clients that logged in, and not with a token: else a stolen one could make others.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.parts import TokenParts
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.security_errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenNotFound,
    DelegationTokenRequestNotAllowed,
)
from odradek.security.authentication.delegation_tokens import BY_TOKEN, DelegationToken, token_hmac

USER: Final = "User"


def check_requester(context: AnyContext) -> None:
    """Raises DelegationTokenRequestNotAllowed. For brokers: a controller does not know how its client logged in."""
    if context.principal == ANONYMOUS or context.connection.state.get(BY_TOKEN):
        raise DelegationTokenRequestNotAllowed(
            "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
            "authenticated channels."
        )


def secret_of(context: RequestContext[TokenParts]) -> str:
    """Raises DelegationTokenAuthDisabled; and DelegationTokenRequestNotAllowed at a broker."""
    if context.broker.is_broker:
        check_requester(context)
    secret = context.broker.settings.delegation_token_secret_key
    if not secret:
        raise DelegationTokenAuthDisabled("Delegation Token feature is not enabled.")
    return secret


def token_of(hmac: bytes, secret: str, context: RequestContext[TokenParts]) -> DelegationToken:
    """The token of this HMAC. Raises DelegationTokenNotFound."""
    for token in context.broker.images.current.tokens.values():
        if compare_digest(token_hmac(secret, token.id), hmac):
            return token
    raise DelegationTokenNotFound("Delegation Token is not found on server.")


def principal_parts(principal: str) -> tuple[str, str]:
    """(type, name) of a principal as `User:alice`."""
    kind, _, name = principal.partition(":")
    return kind, name


def token_fields(token: DelegationToken, secret: str) -> dict[str, object]:
    kind, name = principal_parts(token.owner)
    requester_kind, requester_name = principal_parts(token.requester)
    return {
        "principal_type": kind,
        "principal_name": name,
        "token_requester_principal_type": requester_kind,
        "token_requester_principal_name": requester_name,
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expiry_ms,
        "max_timestamp": token.max_ms,
        "token_id": token.id,
        "hmac": token_hmac(secret, token.id),
    }


def span_ms(value: object) -> int:
    """A span of a request in milliseconds; the decoder gives a timedelta or a number."""
    return value if isinstance(value, int) else round(value.total_seconds() * 1000)  # type: ignore[attr-defined]
