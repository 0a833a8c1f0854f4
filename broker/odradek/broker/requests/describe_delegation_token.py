"""DescribeDelegationToken: the tokens of a client, and those of others that it may describe."""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import principal_parts, secret_of, token_fields
from odradek.broker.requests.parts import TokenParts
from odradek.security.authentication.delegation_tokens import DelegationToken
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import DescribeDelegationTokenRequest


def handle(request: DescribeDelegationTokenRequest, context: RequestContext[TokenParts]) -> Message:
    return describe_visible(request, context, may_see=lambda _: context.broker.authorizer is None)


def describe_visible(
    request: DescribeDelegationTokenRequest,
    context: RequestContext[TokenParts],
    *,
    may_see: Callable[[DelegationToken], bool],
) -> Message:
    """The answer with the client's own tokens, and others that `may_see` allows. Raises as `secret_of`."""
    secret = secret_of(context)
    now_ms = context.broker.clock.wall_ms()
    owners = None
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
    tokens = [
        token
        for token in context.broker.images.current.tokens.values()
        if (owners is None or not owners.isdisjoint(token.principals))
        and not token.has_ended(now_ms)
        and (token.belongs_to(context.principal) or may_see(token))
    ]
    return context.response(error_code=0, tokens=[_describe_token(token, secret) for token in tokens])


def _describe_token(token: DelegationToken, secret: str) -> dict[str, object]:
    renewers = [principal_parts(one) for one in token.renewers]
    return {
        **token_fields(token, secret),
        "renewers": [{"principal_type": one, "principal_name": other} for one, other in renewers],
    }
