"""ExpireDelegationToken: a token ends sooner, or at once."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import secret_of, span_ms, token_of
from odradek.broker.requests.parts import TokenParts
from odradek.foundation.security_errors import DelegationTokenExpired, DelegationTokenOwnerMismatch
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import ExpireDelegationTokenRequest


async def handle(request: ExpireDelegationTokenRequest, context: RequestContext[TokenParts]) -> Message:
    secret = secret_of(context)
    token = token_of(bytes(request.hmac), secret, context)
    now_ms = context.broker.clock.wall_ms()
    if not token.belongs_to(context.principal):
        raise DelegationTokenOwnerMismatch("Specified Principal is not valid Owner/Renewer.")
    period_ms = span_ms(request.expiry_time_period)
    controller = context.broker.active_controller
    if period_ms < 0:
        await controller.remove_token(token.id)
        return context.response(error_code=0, expiry_timestamp=now_ms)
    if token.has_ended(now_ms):
        raise DelegationTokenExpired("Delegation Token is expired.")
    expiry_ms = min(token.max_ms, now_ms + period_ms)
    await controller.put_token(token._replace(expiry_ms=expiry_ms))
    return context.response(error_code=0, expiry_timestamp=expiry_ms)
