"""Super users, resources without ACLs, and decisions that are kept until the ACLs change."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import InvalidRequest, SettingError
from odradek.foundation.limits import AUTHORIZATION_DECISIONS_MAX
from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    check_binding,
)
from odradek.security.authorization.authorizer import Authorizer, super_users
from odradek.security.authorization.filters import AclFilter

ORDERS = ResourcePattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)
READ = AccessControlEntry("User:alice", "*", AclOperation.READ, PermissionType.ALLOW)


def reads(authorizer: Authorizer, principal: str = "User:alice", topic: str = "orders") -> bool:
    return authorizer.allows(principal, "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC, topic)


def test_removed_acl_no_longer_decides() -> None:
    authorizer = Authorizer()
    given = AclIndex().with_changes({ORDERS: [READ]})
    authorizer.replace(given)
    assert reads(authorizer)
    version = authorizer.version
    authorizer.replace(given.with_changes({ORDERS: []}))
    assert not reads(authorizer)
    assert authorizer.version != version


def test_super_users_pass_every_denial() -> None:
    authorizer = Authorizer(super_users=super_users("User:CN=admin,O=us; User:root"))
    denial = AccessControlEntry("User:*", "*", AclOperation.ALL, PermissionType.DENY)
    authorizer.replace(AclIndex().with_changes({ORDERS: [denial]}))
    assert reads(authorizer, "User:CN=admin,O=us")
    assert reads(authorizer, "User:root")
    assert not reads(authorizer)
    with pytest.raises(SettingError, match=r"super\.users"):
        super_users("root")


def test_resources_without_acls() -> None:
    strict, open_to_all = Authorizer(), Authorizer(allows_without_acl=True)
    index = AclIndex().with_changes({ORDERS: [READ]})
    strict.replace(index)
    open_to_all.replace(index)
    assert not reads(strict, topic="payments")
    assert reads(open_to_all, topic="payments")
    # An ACL for any principal makes the resource one with ACLs.
    assert not reads(open_to_all, "User:bob")


def test_any_topic_is_first_asked_by_a_fixed_name() -> None:
    authorizer = Authorizer(allows_without_acl=True)
    denied = AccessControlEntry("User:*", "*", AclOperation.WRITE, PermissionType.DENY)
    authorizer.replace(AclIndex().with_changes({ORDERS: [denied]}))
    assert authorizer.allows_any("User:alice", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC)
    fixed = ResourcePattern(AclResourceType.TOPIC, "hardcode", PatternType.LITERAL)
    authorizer.replace(AclIndex().with_changes({fixed: [denied]}))
    assert not authorizer.allows_any("User:alice", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC)


def test_authorized_operations_are_those_of_the_type() -> None:
    authorizer = Authorizer()
    cluster = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    everything = READ._replace(operation=AclOperation.ALL)
    authorizer.replace(AclIndex().with_changes({ORDERS: [READ], cluster: [everything]}))
    operations = authorizer.operations("User:alice", "::1", AclResourceType.TOPIC, "orders")
    assert operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    of_cluster = authorizer.operations("User:alice", "::1", AclResourceType.CLUSTER, CLUSTER_NAME)
    assert of_cluster == sum(1 << number for number in (5, 7, 8, 9, 10, 11, 12))


def test_kept_decisions_are_bounded() -> None:
    authorizer = Authorizer()
    for number in range(AUTHORIZATION_DECISIONS_MAX + 5):
        reads(authorizer, topic=f"topic-{number}")
    assert len(authorizer._decisions) <= AUTHORIZATION_DECISIONS_MAX


@pytest.mark.parametrize(
    ("pattern", "entry"),
    [
        (ORDERS._replace(name=""), READ),
        (ORDERS._replace(type=AclResourceType.ANY), READ),
        (ORDERS._replace(pattern_type=PatternType.MATCH), READ),
        (ORDERS._replace(type=AclResourceType.CLUSTER), READ),
        (ORDERS, READ._replace(principal="alice")),
        (ORDERS, READ._replace(host="")),
        (ORDERS, READ._replace(operation=AclOperation.ANY)),
        (ORDERS, READ._replace(permission=PermissionType.ANY)),
    ],
)
def test_impossible_acls_are_refused(pattern: ResourcePattern, entry: AccessControlEntry) -> None:
    with pytest.raises(InvalidRequest):
        check_binding(AclBinding(pattern, entry))


def test_filters_match_as_kafka_describes_them() -> None:
    prefix = ResourcePattern(AclResourceType.TOPIC, "ord", PatternType.PREFIXED)
    everything = ResourcePattern(AclResourceType.TOPIC, "*", PatternType.LITERAL)
    index = AclIndex().with_changes({ORDERS: [READ], prefix: [READ], everything: [READ]})

    def found(wanted: AclFilter) -> set[ResourcePattern]:
        return {one.pattern for one in index.matching(wanted)}

    assert found(AclFilter()) == {ORDERS, prefix, everything}
    assert found(AclFilter(name="orders", pattern_type=PatternType.MATCH)) == {ORDERS, prefix, everything}
    assert found(AclFilter(name="orders")) == {ORDERS}
    literal = AclFilter(type=AclResourceType.TOPIC, name="orders", pattern_type=PatternType.LITERAL)
    assert found(literal) == {ORDERS}
    assert found(AclFilter(pattern_type=PatternType.PREFIXED)) == {prefix}
    assert found(AclFilter(operation=AclOperation.ALL)) == set()
    assert found(AclFilter(principal="User:bob")) == set()
    with pytest.raises(InvalidRequest):
        AclFilter(type=AclResourceType.UNKNOWN).check()
