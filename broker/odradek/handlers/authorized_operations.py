"""What a principal may do to a resource, as the bit set of the protocol: bit n for operation n.

Without an authorizer every client may do every operation of the kind of resource, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext

# The answer when the request did not ask.
NOT_ASKED: Final = -(2**31)

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
CLUSTER_OPERATIONS: Final = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
GROUP_OPERATIONS: Final = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)


def of_topic(context: RequestContext, name: str) -> int:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return TOPIC_OPERATIONS
    from odradek.authorization.acls import ResourceType

    return authorizer.operations(context.principal, context.client_host, ResourceType.TOPIC, name)


def of_group(context: RequestContext, group_id: str) -> int:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return GROUP_OPERATIONS
    from odradek.authorization.acls import ResourceType

    return authorizer.operations(context.principal, context.client_host, ResourceType.GROUP, group_id)


def of_cluster(context: RequestContext) -> int:
    """None at all for a client that may not describe the cluster."""
    authorizer = context.broker.authorizer
    if authorizer is None:
        return CLUSTER_OPERATIONS
    from odradek.authorization.acls import CLUSTER_NAME, ResourceType

    operations = authorizer.operations(
        context.principal, context.client_host, ResourceType.CLUSTER, CLUSTER_NAME
    )
    return operations if operations & 1 << _DESCRIBE else 0
