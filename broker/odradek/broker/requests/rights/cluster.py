"""Checks of the cluster's APIs and of delegation tokens that are more than one right.

A client needs no right for its own tokens, and some for those of others (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.delegation_tokens import check_requester
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.rights.rights import Rights
from odradek.foundation.delegation_tokens import DelegationToken
from odradek.foundation.errors import RequestError
from odradek.foundation.login_errors import DelegationTokenAuthorizationFailed
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.errors import error_code

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.clients import (
        CreateDelegationTokenRequest,
        DescribeDelegationTokenRequest,
    )
    from odradek.wire.protocol.requests.cluster import (
        DescribeLogDirsRequest,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderTopic,
    )


def describe_log_dirs(
    handle: Handle, request: DescribeLogDirsRequest, context: RequestContext, rights: Rights
) -> Answer:
    """Describe on the cluster. Versions below 3 have no error, and answer no directory."""
    error = rights.refusal(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    if error is None:
        return handle(request, context)
    return context.response(error_code=error_code(error), results=[])


def leader_epochs(
    request: OffsetForLeaderEpochRequest, topic: OffsetForLeaderTopic, rights: Rights
) -> RequestError | None:
    """OffsetForLeaderEpoch: ClusterAction on the cluster, else Describe of each topic."""
    if rights.may_instead(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
        return None
    return rights.refusal(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic)


def create_token(
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


def describe_tokens(
    handle: Handle, request: DescribeDelegationTokenRequest, context: RequestContext, rights: Rights
) -> Answer:
    """Describe on a token, or DescribeTokens on its owner, for tokens of others."""
    from odradek.broker.requests.describe_delegation_token import described

    def may_see(token: DelegationToken) -> bool:
        return rights.could(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner) or rights.could(
            AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.id
        )

    return described(request, context, may_see=may_see)
