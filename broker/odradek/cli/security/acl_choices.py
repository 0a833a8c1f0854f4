"""The ACLs and filters that the options of `odradek acls` stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click

from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.security.authorization.filters import AclFilter

# The options that name resources, with the name of their type.
RESOURCE_OPTIONS: Final = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "delegation_token": "DELEGATION_TOKEN",
    "user_principal": "USER",
}
# What producers and consumers need, by the type of resource.
_PRODUCER: Final = {"TOPIC": ("WRITE", "DESCRIBE", "CREATE"), "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE")}
_CONSUMER: Final = {"TOPIC": ("READ", "DESCRIBE"), "GROUP": ("READ",)}


@dataclass(frozen=True, slots=True)
class AclChoice:
    """The values of the options of one command."""

    names: dict[str, tuple[str, ...]]
    cluster: bool
    pattern_type: str
    allow_principal: tuple[str, ...] = ()
    deny_principal: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    deny_host: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def patterns(self) -> list[ResourcePattern]:
        """The resources that are named."""
        kind = PatternType[self.pattern_type.upper()]
        found = [
            ResourcePattern(AclResourceType[RESOURCE_OPTIONS[option]], name, kind)
            for option, names in self.names.items()
            for name in names
        ]
        if self.cluster:
            found.append(ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
        return found

    def bindings(self) -> list[AclBinding]:
        """The ACLs to add. Raises click.UsageError for options that make none."""
        patterns = self._require_patterns()
        if not self.allow_principal and not self.deny_principal:
            raise click.UsageError("name the principal: --allow-principal or --deny-principal User:NAME")
        return list(
            dict.fromkeys(
                AclBinding(pattern, AccessControlEntry(principal, host, operation, permission))
                for pattern in patterns
                for operation in self._operations(pattern)
                for principal, host, permission in self._subjects()
            )
        )

    def filters(self) -> list[AclFilter]:
        """The ACLs to remove: the same ones, or all of the resources where no principal is named."""
        patterns = self._require_patterns()
        if not self.allow_principal and not self.deny_principal:
            if self.operation or self.producer or self.consumer:
                raise click.UsageError("name whose ACLs are removed: --allow-principal or --deny-principal")
            return [AclFilter(pattern.type, pattern.name, pattern.pattern_type) for pattern in patterns]
        return [
            AclFilter(pattern.type, pattern.name, pattern.pattern_type, *entry)
            for pattern, entry in self.bindings()
        ]

    def _require_patterns(self) -> list[ResourcePattern]:
        patterns = self.patterns()
        cluster = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        if self.idempotent and cluster not in patterns:
            patterns.append(cluster)
        if not patterns:
            options = ", ".join(f"--{option.replace('_', '-')}" for option in RESOURCE_OPTIONS)
            raise click.UsageError(f"name a resource: {options} or --cluster")
        return patterns

    def _operations(self, pattern: ResourcePattern) -> list[AclOperation]:
        """The operations for one resource. Raises click.UsageError for one that its type does not have."""
        kind = pattern.type.name
        names = list(self.operation)
        if self.producer:
            names += _PRODUCER.get(kind, ())
        if self.consumer:
            names += _CONSUMER.get(kind, ())
        if self.idempotent and pattern.type is AclResourceType.CLUSTER:
            names.append("IDEMPOTENT_WRITE")
        if not names and not (self.producer or self.consumer or self.idempotent):
            names = ["ALL"]
        operations = [AclOperation[name.upper().replace("-", "_")] for name in names]
        allowed = SUPPORTED_OPERATIONS[pattern.type]
        for one in operations:
            if one is not AclOperation.ALL and one not in allowed:
                known = ", ".join(sorted(option_word(each.name) for each in allowed))
                raise click.UsageError(
                    f"a {kind.lower()} has no operation {option_word(one.name)}; it has {known}, all"
                )
        return operations

    def _subjects(self) -> Iterator[tuple[str, str, PermissionType]]:
        for principals, hosts, permission in (
            (self.allow_principal, self.allow_host, PermissionType.ALLOW),
            (self.deny_principal, self.deny_host, PermissionType.DENY),
        ):
            for principal in principals:
                for host in hosts or (WILDCARD,):
                    yield principal, host, permission


def option_word(name: str) -> str:
    """`describe-configs` for DESCRIBE_CONFIGS."""
    return name.lower().replace("_", "-")
