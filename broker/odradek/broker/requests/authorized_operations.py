"""The operations that a principal may do to a resource, as the bit set of the protocol: bit n for operation n.

Without an authorizer every client may do every operation of the kind of resource, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.broker.requests import late

if TYPE_CHECKING:
    from odradek.broker.requests.context import AnyContext

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


def of_topic(context: AnyContext, name: str, *, is_asked: bool = True) -> int:
    return _operations(context, "TOPIC", name, every=TOPIC_OPERATIONS) if is_asked else NOT_ASKED


def of_group(context: AnyContext, group_id: str, *, is_asked: bool) -> int:
    return _operations(context, "GROUP", group_id, every=GROUP_OPERATIONS) if is_asked else NOT_ASKED


def of_cluster(context: AnyContext, *, is_asked: bool) -> int:
    """None at all for a client that may not describe the cluster."""
    if not is_asked:
        return NOT_ASKED
    operations = _operations(context, "CLUSTER", None, every=CLUSTER_OPERATIONS)
    return operations if operations & 1 << _DESCRIBE else 0


def _operations(context: AnyContext, resource_type: str, name: str | None, *, every: int) -> int:
    """The client's operations on a resource, without a `name` on the cluster; `every` one without an authorizer."""
    authorizer = context.broker.authorizer
    if authorizer is None:
        return every
    return authorizer.operations(
        context.principal, context.client_host, late.AclResourceType[resource_type], name or late.CLUSTER_NAME
    )
