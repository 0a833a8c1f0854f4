"""Generated cells: an ACL set, a principal, an address, an operation and a resource, for two authorizers to decide."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

PRINCIPALS: Final = ("User:alice", "User:bob", "User:CN=carol,O=us", "User:root")
ACL_PRINCIPALS: Final = (*PRINCIPALS[:3], "User:*", "Group:alice", "User:Alice")
# Java's spelling of an IPv6 address; ours is normalised.
HOSTS: Final = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
NAMES: Final = ("orders", "orders-eu", "order", "o", "payments", "hardcode", "hard", "Orders", "*", "*x")
SUPER_USERS: Final = "User:root;User:nobody"
_NAMED: Final = tuple(
    one for one in AclResourceType if one >= AclResourceType.TOPIC and one is not AclResourceType.CLUSTER
)


class AclSet(NamedTuple):
    """What both authorizers are given."""

    allows_without_acl: bool
    acls: tuple[AclBinding, ...]


class Question(NamedTuple):
    """`name` is None for "any resource of the type"."""

    principal: str
    host: str
    operation: AclOperation
    type: AclResourceType
    name: str | None


def acl_sets(rng: random.Random, count: int) -> Iterator[AclSet]:
    for number in range(count):
        # Few ACLs show what one of them does, many how they meet.
        size = rng.choice((0, 1, 1, 2, 3, 5, 8, 13, 30))
        acls = dict.fromkeys(_acl(rng) for _ in range(size))
        yield AclSet(number % 2 == 0, tuple(acls))


def _acl(rng: random.Random) -> AclBinding:
    resource_type = rng.choice(
        (AclResourceType.TOPIC, AclResourceType.TOPIC, *_NAMED, AclResourceType.CLUSTER)
    )
    if resource_type is AclResourceType.CLUSTER:
        pattern = ResourcePattern(resource_type, CLUSTER_NAME, PatternType.LITERAL)
    else:
        pattern_type = rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
        pattern = ResourcePattern(resource_type, rng.choice(NAMES), pattern_type)
    operations = (AclOperation.ALL, *sorted(SUPPORTED_OPERATIONS[resource_type]))
    return AclBinding(
        pattern,
        AccessControlEntry(
            rng.choice(ACL_PRINCIPALS),
            rng.choice(("*", "*", *HOSTS)),
            rng.choice(operations),
            rng.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
        ),
    )


def questions(rng: random.Random, count: int) -> Iterator[Question]:
    for _ in range(count):
        resource_type = rng.choice(
            (AclResourceType.TOPIC, AclResourceType.TOPIC, *_NAMED, AclResourceType.CLUSTER)
        )
        name: str | None = CLUSTER_NAME if resource_type is AclResourceType.CLUSTER else rng.choice(NAMES)
        operation = rng.choice(sorted(SUPPORTED_OPERATIONS[resource_type]))
        if rng.random() < 0.15:
            name = None
        yield Question(rng.choice(PRINCIPALS), rng.choice(HOSTS), operation, resource_type, name)


def lines(acl_set: AclSet, asked: list[Question]) -> Iterator[str]:
    """The input of `Decisions.java`."""
    yield "\t".join(("S", SUPER_USERS, str(acl_set.allows_without_acl).lower()))
    for pattern, entry in acl_set.acls:
        yield "\t".join(
            (
                "A",
                pattern.type.name,
                pattern.name,
                pattern.pattern_type.name,
                entry.principal,
                entry.host,
                entry.operation.name,
                entry.permission.name,
            )
        )
    for one in asked:
        kind = "T" if one.name is None else "Q"
        named = () if one.name is None else (one.name,)
        yield "\t".join((kind, one.principal, one.host, one.operation.name, one.type.name, *named))
