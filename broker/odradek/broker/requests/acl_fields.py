"""Shared by the three APIs of ACLs: fields of the wire as values and back, and the authorizer that they need."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from odradek.foundation.security_errors import SecurityDisabled
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.security.authorization.filters import AclFilter

if TYPE_CHECKING:
    from odradek.broker.requests.context import AnyContext
    from odradek.security.authorization.authorizer import Authorizer
    from odradek.wire.protocol.requests.clients import DeleteAclsFilter, DescribeAclsRequest

Value = TypeVar("Value", bound=IntEnum)


def require_authorizer(context: AnyContext) -> Authorizer:
    """Raises SecurityDisabled when there is none."""
    authorizer = context.broker.authorizer
    if authorizer is None:
        raise SecurityDisabled(
            "No Authorizer is configured: set authorizer.class.name on brokers and controllers."
        )
    return authorizer


def value_of(kind: type[Value], number: int) -> Value:
    """The value with this number, UNKNOWN for one of a newer release."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def entry_fields(entry: AccessControlEntry) -> dict[str, object]:
    """The entry of an ACL as answers have it."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


def pattern_fields(pattern: ResourcePattern) -> dict[str, object]:
    """The resource pattern of an ACL as answers have it."""
    return {
        "resource_type": pattern.type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
    }


def filter_of(fields: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        type=value_of(AclResourceType, fields.resource_type_filter),
        name=fields.resource_name_filter,
        pattern_type=value_of(PatternType, fields.pattern_type_filter),
        principal=fields.principal_filter,
        host=fields.host_filter,
        operation=value_of(AclOperation, fields.operation),
        permission=value_of(PermissionType, fields.permission_type),
    )
