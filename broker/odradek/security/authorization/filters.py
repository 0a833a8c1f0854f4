"""Filters of ACLs, as DescribeAcls and DeleteAcls have them: which ACLs match."""

from __future__ import annotations

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.named_tuple import NamedTuple
from odradek.security.authorization.acls import (
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)


class AclFilter(NamedTuple):
    """None, and ANY, stand for every value. Other values are compared as they are: ALL matches only ALL.

    With MATCH the name is a resource's: all patterns that are about it match.
    """

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    def check(self) -> None:
        """Raises InvalidRequest for values that this release does not know."""
        for value in (self.type, self.pattern_type, self.operation, self.permission):
            if value == 0:
                raise InvalidRequest(f"The filter has an unknown {type(value).__name__}.")

    @property
    def pattern(self) -> ResourcePattern | None:
        """The only pattern that can match, or None where several can."""
        if self.type is AclResourceType.ANY or self.name is None:
            return None
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        return ResourcePattern(self.type, self.name, self.pattern_type)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.type not in (AclResourceType.ANY, pattern.type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.LITERAL:
            return pattern.name in (self.name, WILDCARD)
        return self.name.startswith(pattern.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (PermissionType.ANY, entry.permission)
        )
