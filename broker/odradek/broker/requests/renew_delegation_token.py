"""RenewDelegationToken: a token is good for longer, up to the end of its life."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import secret_of, span_ms, token_of
from odradek.broker.requests.parts import TokenParts
from odradek.foundation.security_errors import DelegationTokenExpired, DelegationTokenOwnerMismatch
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import RenewDelegationTokenRequest


async def handle(request: RenewDelegationTokenRequest, context: RequestContext[TokenParts]) -> Message:
    secret = secret_of(context)
    token = token_of(bytes(request.hmac), secret, context)
    now_ms = context.broker.clock.wall_ms()
    if token.has_ended(now_ms):
        raise DelegationTokenExpired("Delegation Token is expired.")
    if not token.belongs_to(context.principal):
        raise DelegationTokenOwnerMismatch("Specified Principal is not valid Owner/Renewer.")
    asked_ms = span_ms(request.renew_period)
    period_ms = asked_ms if asked_ms >= 0 else context.broker.settings.delegation_token_expiry_time_ms
    expiry_ms = min(token.max_ms, now_ms + period_ms)
    await context.broker.active_controller.put_token(token._replace(expiry_ms=expiry_ms))
    return context.response(error_code=0, expiry_timestamp=expiry_ms)
