"""ExpireDelegationToken: a token ends sooner, or at once."""

from __future__ import annotations

from typing import Final

from odradek.foundation.delegation_tokens import DelegationToken
from odradek.foundation.login_errors import DelegationTokenExpired, DelegationTokenOwnerMismatch
from odradek.handlers.context import RequestContext
from odradek.handlers.delegation_tokens import secret_of, span_ms, token_of
from odradek.protocol.api import ApiKey
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.clients import ExpireDelegationTokenRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.EXPIRE_DELEGATION_TOKEN


def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> Pending[Message]:
    secret = secret_of(context)
    token = token_of(bytes(request.hmac), secret, context)
    now_ms = context.broker.clock.wall_ms()
    if not token.belongs_to(context.principal):
        raise DelegationTokenOwnerMismatch("Specified Principal is not valid Owner/Renewer.")
    period_ms = span_ms(request.expiry_time_period)
    if period_ms < 0:
        return Pending(_expire(token._replace(expiry_ms=now_ms), context, at_once=True))
    if token.has_ended(now_ms):
        raise DelegationTokenExpired("Delegation Token is expired.")
    return Pending(
        _expire(token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms)), context, at_once=False)
    )


async def _expire(token: DelegationToken, context: RequestContext, *, at_once: bool) -> Message:
    controller = context.broker.active_controller
    await (controller.remove_token(token.id) if at_once else controller.put_token(token))
    return response(API, context.header.api_version, error_code=0, expiry_timestamp=token.expiry_ms)
