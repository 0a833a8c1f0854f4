"""Access control lists as values, with the numbers and words of Kafka (KIP-11, KIP-290).

An ACL binds an entry to a resource pattern. The entry allows or denies one operation to one principal from one host.
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum
from functools import lru_cache
from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.named_tuple import NamedTuple

WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class AclResourceType(IntEnum):
    """The kind of resource that an ACL is about; the numbers are the wire's."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The way in which a pattern's name is compared with a resource's. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource; the numbers are the wire's."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """Whether an ACL denies or allows; the numbers are the wire's."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about. A LITERAL `*` is all of the type; a PREFIXED `*` is a prefix of one
    character.
    """

    type: AclResourceType
    name: str
    pattern_type: PatternType


class AccessControlEntry(NamedTuple):
    """An allowed or denied operation, to whom and from where.

    `principal` is TYPE:NAME. `host` is an address, a range of addresses as `10.1.0.0/16`, or `*`.
    """

    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType


class AclBinding(NamedTuple):
    """One ACL."""

    pattern: ResourcePattern
    entry: AccessControlEntry


# The operations that each type of resource has, as in Kafka's AclEntry.
_OPERATIONS: Final = {
    AclResourceType.TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    AclResourceType.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    AclResourceType.CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER DESCRIBE",
    AclResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
    AclResourceType.DELEGATION_TOKEN: "DESCRIBE",
    AclResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
SUPPORTED_OPERATIONS: Final = {
    kind: frozenset(AclOperation[name] for name in names.split()) for kind, names in _OPERATIONS.items()
}


def word_of(value: IntEnum) -> str:
    """Kafka's word in its ZooKeeper nodes and its tools: `TransactionalId` for TRANSACTIONAL_ID."""
    return "".join(part.capitalize() for part in value.name.split("_"))


@lru_cache(maxsize=4096)
def comparable_host(host: str) -> str:
    """An address in one spelling, for comparison; other texts as they are.

    Java writes an IPv6 address as `0:0:0:0:0:0:0:1`, Python as `::1`. An IPv4 address within IPv6 is the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def network_of(host: str) -> Network | None:
    """The addresses of a range in CIDR notation (KIP-1276), as `10.1.0.0/16`; None for another text.

    As in Kafka, the address need not be the first of its range.
    """
    if not host.rpartition("/")[2].isdecimal() or "/" not in host:
        return None
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is; None for another text."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def check_principal(principal: str) -> str:
    """The same text, if it is TYPE:NAME. Raises InvalidRequest."""
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise InvalidRequest(f"{principal!r} is no principal; write it as User:NAME.")
    return principal


def check_binding(binding: AclBinding) -> None:
    """Raises InvalidRequest for what no stored ACL may be."""
    pattern, entry = binding
    if pattern.type not in SUPPORTED_OPERATIONS:
        raise InvalidRequest(f"An ACL cannot be for the resource type {pattern.type.name}.")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(
            f"An ACL cannot have the pattern type {pattern.pattern_type.name}; use LITERAL or PREFIXED."
        )
    if not pattern.name:
        raise InvalidRequest("The resource name of an ACL is empty.")
    if pattern.type is AclResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}.")
    if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidRequest(f"An ACL cannot have the operation {entry.operation.name}.")
    if entry.permission not in (PermissionType.ALLOW, PermissionType.DENY):
        raise InvalidRequest(f"An ACL cannot have the permission {entry.permission.name}.")
    if not entry.host:
        raise InvalidRequest("The host of an ACL is empty; use * for every host.")
    if "/" in entry.host and network_of(entry.host) is None:
        raise InvalidRequest(
            f"The host {entry.host!r} of an ACL is no range of addresses; write it as 10.1.0.0/16 or 2001:db8::/32."
        )
    check_principal(entry.principal)
