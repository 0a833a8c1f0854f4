"""Kafka's rules read from top to bottom over a plain set of ACLs: what the index is compared with."""

from __future__ import annotations

from collections.abc import Collection

from odradek.security.authorization.acls import (
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

IMPLIES_DESCRIBE = {
    AclOperation.DESCRIBE,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
}
IMPLIES_DESCRIBE_CONFIGS = {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}


def is_about(pattern: ResourcePattern, resource_type: int, name: str) -> bool:
    if pattern.type != resource_type:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def applies(binding: AclBinding, principal: str, host: str, operation: AclOperation) -> bool:
    entry = binding.entry
    if entry.principal not in (principal, "User:*") or entry.host not in (host, "*"):
        return False
    if entry.operation in (AclOperation.ALL, operation):
        return True
    if entry.permission is PermissionType.DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return entry.operation in IMPLIES_DESCRIBE
    return operation is AclOperation.DESCRIBE_CONFIGS and entry.operation in IMPLIES_DESCRIBE_CONFIGS


def decision(
    acls: Collection[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: int,
    name: str,
) -> bool | None:
    """Allowed, denied, or None where no ACL is about the resource."""
    about = [one for one in acls if is_about(one.pattern, resource_type, name)]
    if not about:
        return None
    kinds = {one.entry.permission for one in about if applies(one, principal, host, operation)}
    return PermissionType.DENY not in kinds and PermissionType.ALLOW in kinds


def any_allowed(
    acls: Collection[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: AclResourceType,
) -> bool:
    """Kafka's authorizeByResourceType, but for its first question about the name `hardcode`."""
    mine = [
        one
        for one in acls
        if one.pattern.type == resource_type
        and one.entry.principal in (principal, "User:*")
        and one.entry.host in (host, "*")
        and one.entry.operation in (operation, AclOperation.ALL)
    ]
    denied = {one.pattern for one in mine if one.entry.permission is PermissionType.DENY}
    allowed = {one.pattern for one in mine if one.entry.permission is PermissionType.ALLOW}
    everything = ResourcePattern(resource_type, "*", PatternType.LITERAL)
    if everything in denied:
        return False
    if everything in allowed:
        return True
    prefixes = [one.name for one in denied if one.pattern_type is PatternType.PREFIXED]
    return any(
        not (one.pattern_type is PatternType.LITERAL and one in denied)
        and not any(one.name.startswith(prefix) for prefix in prefixes)
        for one in allowed
    )
