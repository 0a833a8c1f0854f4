"""What the three APIs of ACLs share: numbers of the wire as values, and the authorizer that they need."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.authorization.acls import AclOperation, PatternType, PermissionType, ResourceType
from odradek.authorization.filters import AclFilter
from odradek.foundation.errors import SecurityDisabled

if TYPE_CHECKING:
    from odradek.authorization.authorizer import Authorizer
    from odradek.handlers.context import SharedContext

Value = TypeVar("Value", bound=IntEnum)


class FilterFields(Protocol):
    """The fields of a filter, in DescribeAcls and DeleteAcls."""

    @property
    def resource_type_filter(self) -> int: ...

    @property
    def resource_name_filter(self) -> str | None: ...

    @property
    def pattern_type_filter(self) -> int: ...

    @property
    def principal_filter(self) -> str | None: ...

    @property
    def host_filter(self) -> str | None: ...

    @property
    def operation(self) -> int: ...

    @property
    def permission_type(self) -> int: ...


def require_authorizer(context: SharedContext) -> Authorizer:
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


def filter_of(fields: FilterFields) -> AclFilter:
    return AclFilter(
        type=value_of(ResourceType, fields.resource_type_filter),
        name=fields.resource_name_filter,
        pattern_type=value_of(PatternType, fields.pattern_type_filter),
        principal=fields.principal_filter,
        host=fields.host_filter,
        operation=value_of(AclOperation, fields.operation),
        permission=value_of(PermissionType, fields.permission_type),
    )
