"""Checks of the cluster's APIs that are more than one right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.rights.rights import Rights
from odradek.foundation.errors import RequestError
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.errors import error_code

if TYPE_CHECKING:
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
