"""Checks of delegation tokens: a client's own need no right, those of others do (KIP-373)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import check_requester
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.rights.rights import Rights
from odradek.foundation.delegation_tokens import DelegationToken
from odradek.foundation.login_errors import DelegationTokenAuthorizationFailed
from odradek.security.authorization.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.clients import (
        CreateDelegationTokenRequest,
        DescribeDelegationTokenRequest,
    )


def create(
    handle: Handle, request: CreateDelegationTokenRequest, context: RequestContext, rights: Rights
) -> Answer:
    """CreateTokens on the user that a token is for, unless it is the client itself.

    As in Kafka, a client that may have no tokens learns that first.
    """
    if context.broker.is_broker:
        check_requester(context)
    name = request.owner_principal_name
    owner = f"{request.owner_principal_type}:{name}"
    if (
        name
        and owner != context.principal
        and not rights.may(AclOperation.CREATE_TOKENS, AclResourceType.USER, owner)
    ):
        raise DelegationTokenAuthorizationFailed("Delegation Token authorization failed.")
    return handle(request, context)


def describe(
    handle: Handle, request: DescribeDelegationTokenRequest, context: RequestContext, rights: Rights
) -> Answer:
    """Describe on a token, or DescribeTokens on its owner, for tokens of others."""
    from odradek.broker.requests.describe_delegation_token import described

    def may_see(token: DelegationToken) -> bool:
        return rights.could(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner) or rights.could(
            AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.id
        )

    return described(request, context, may_see=may_see)
