"""ACLs in short, and the error codes of answers, for tests of rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.wire.protocol.api import ApiKey

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, ALL = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION, NO_TOKEN = 29, 30, 31, 53, 65


def acl(
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str = CLUSTER_NAME,
    *,
    principal: str = "User:alice",
    permission: PermissionType = PermissionType.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(resource_type, name, pattern_type),
        AccessControlEntry(principal, "*", operation, permission),
    )


def committed(group: str, topic: str, offset: int = 1) -> dict[str, Any]:
    """A commit of a client outside of the group, which makes the group."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [partition]}],
    }


def codes(message: Any) -> list[int]:
    """Every error code of an answer, from the outside in, without the zeros."""
    found: list[int] = []
    for name in getattr(message, "__dataclass_fields__", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            found += [int(value)] if int(value) else []
        elif isinstance(value, tuple):
            for one in value:
                found += codes(one)
    return found


# API, version, fields, the errors without rights, and rights with which there is no such error.
Row = tuple[ApiKey, int, dict[str, Any], set[int], Sequence[AclBinding]]
