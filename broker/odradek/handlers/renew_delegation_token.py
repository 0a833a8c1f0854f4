"""RenewDelegationToken: a token is good for longer, up to the end of its life."""

from __future__ import annotations

from typing import Final

from odradek.foundation.delegation_tokens import DelegationToken
from odradek.foundation.login_errors import DelegationTokenExpired, DelegationTokenOwnerMismatch
from odradek.handlers.context import RequestContext
from odradek.handlers.delegation_tokens import secret_of, span_ms, token_of
from odradek.protocol.api import ApiKey
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.clients import RenewDelegationTokenRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.RENEW_DELEGATION_TOKEN


def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> Pending[Message]:
    secret = secret_of(context)
    token = token_of(bytes(request.hmac), secret, context)
    now_ms = context.broker.clock.wall_ms()
    if token.has_ended(now_ms):
        raise DelegationTokenExpired("Delegation Token is expired.")
    if not token.belongs_to(context.principal):
        raise DelegationTokenOwnerMismatch("Specified Principal is not valid Owner/Renewer.")
    asked_ms = span_ms(request.renew_period)
    period_ms = asked_ms if asked_ms >= 0 else context.broker.settings.delegation_token_expiry_time_ms
    return Pending(_renew(token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms)), context))


async def _renew(token: DelegationToken, context: RequestContext) -> Message:
    await context.broker.active_controller.put_token(token)
    return response(API, context.header.api_version, error_code=0, expiry_timestamp=token.expiry_ms)
