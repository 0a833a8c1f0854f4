"""CreateDelegationToken: a login for programs of a user, which ends by itself (KIP-48)."""

from __future__ import annotations

import base64
import uuid
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import USER, secret_of, span_ms, token_fields
from odradek.broker.requests.parts import TokenParts
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.security_errors import InvalidPrincipalType
from odradek.security.authentication.delegation_tokens import DelegationToken
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import CreateDelegationTokenRequest

_RENEWERS_MAX: Final = 100


async def handle(request: CreateDelegationTokenRequest, context: RequestContext[TokenParts]) -> Message:
    secret = secret_of(context)
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
        if request.owner_principal_type != USER:
            raise InvalidPrincipalType(f"The owner {owner} is no user.")
    for renewer in request.renewers:
        if renewer.principal_type != USER:
            raise InvalidPrincipalType(
                f"The renewer {renewer.principal_type}:{renewer.principal_name} is no user."
            )
    if len(request.renewers) > _RENEWERS_MAX:
        raise InvalidRequest(
            f"A token has {len(request.renewers)} renewers, and {_RENEWERS_MAX} are allowed."
        )
    renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
    settings, now_ms = context.broker.settings, context.broker.clock.wall_ms()
    asked_ms, longest_ms = span_ms(request.max_lifetime), settings.delegation_token_max_lifetime_ms
    max_ms = now_ms + (min(asked_ms, longest_ms) if asked_ms > 0 else longest_ms)
    token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    token = DelegationToken(
        token_id,
        owner,
        context.principal,
        renewers,
        issued_ms=now_ms,
        max_ms=max_ms,
        expiry_ms=min(max_ms, now_ms + settings.delegation_token_expiry_time_ms),
    )
    await context.broker.active_controller.put_token(token)
    return context.response(error_code=0, **token_fields(token, secret))
