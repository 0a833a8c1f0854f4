"""The index decides as a scan of all ACLs would, after any additions and removals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from odradek.foundation.errors import InvalidRequest
from odradek.security.authorization.acl_matching import AclIndex, Decision
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    check_binding,
    comparable_host,
)
from tests.security.authorization import naive
from tests.security.authorization.strategies import HOSTS, NAMES, OPERATIONS, PRINCIPALS, TYPES, steps
from tests.support.examples import examples

RANGED = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL)
AS_DECISION = {None: Decision.NO_ACL, True: Decision.ALLOWED, False: Decision.DENIED}


def index_of(index: AclIndex, acls: Sequence[AclBinding], touched: set[ResourcePattern]) -> AclIndex:
    return index.with_changes(
        {pattern: [one.entry for one in acls if one.pattern == pattern] for pattern in touched}
    )


def test_a_deny_for_a_prefix_counts_beside_acls_for_longer_ones() -> None:
    def of_prefix(name: str, permission: PermissionType) -> dict[ResourcePattern, list[AccessControlEntry]]:
        pattern = ResourcePattern(AclResourceType.TOPIC, name, PatternType.PREFIXED)
        return {pattern: [AccessControlEntry("User:alice", "*", AclOperation.READ, permission)]}

    index = AclIndex().with_changes(
        of_prefix("a", PermissionType.DENY) | of_prefix("abcd", PermissionType.ALLOW)
    )
    for name in ("a", "ab", "abcd", "abcde"):
        decision = index.decide("User:alice", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC, name)
        assert decision is Decision.DENIED, name
    assert not index.allows_any("User:alice", "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)


@pytest.mark.thorough
@settings(max_examples=examples(150), deadline=None)
@given(steps)
def test_index_equals_a_scan_after_any_changes(
    changes: list[tuple[list[AclBinding], list[int]]],
) -> None:
    index = AclIndex()
    acls: list[AclBinding] = []
    for added, removed in changes:
        touched = {one.pattern for one in added}
        for number in removed:
            if acls:
                gone = acls.pop(number % len(acls))
                touched.add(gone.pattern)
        acls = list(dict.fromkeys([*acls, *added]))
        before = index
        index, frozen = index_of(index, acls, touched), list(before)
        assert list(before) == frozen
        assert set(index) == set(acls)
        assert len(index) == len(acls)
        compare(index, acls)


def compare(index: AclIndex, acls: Sequence[AclBinding]) -> None:
    for principal in PRINCIPALS[:3]:
        for host in HOSTS[:2]:
            for resource_type in TYPES:
                for operation in OPERATIONS[:9]:
                    assert index.allows_any(principal, host, operation, resource_type) == naive.any_allowed(
                        acls, principal, host, operation, resource_type
                    )
                    for name in NAMES:
                        expected = naive.decision(acls, principal, host, operation, resource_type, name)
                        found = index.decide(principal, host, operation, resource_type, name)
                        assert found is AS_DECISION[expected], (
                            principal,
                            host,
                            operation,
                            resource_type,
                            name,
                        )


def allow(pattern_type: PatternType, name: str, host: str = "*") -> AclBinding:
    entry = AccessControlEntry("User:alice", host, AclOperation.READ, PermissionType.ALLOW)
    return AclBinding(ResourcePattern(AclResourceType.TOPIC, name, pattern_type), entry)


def test_prefixed_star_is_a_prefix_of_one_character() -> None:
    acl = allow(PatternType.PREFIXED, "*")
    index = AclIndex().with_changes({acl.pattern: [acl.entry]})
    topic = AclResourceType.TOPIC
    assert index.decide("User:alice", "::1", AclOperation.READ, topic, "orders") is Decision.NO_ACL
    assert index.decide("User:alice", "::1", AclOperation.READ, topic, "*orders") is Decision.ALLOWED


def test_hosts_are_compared_in_one_spelling() -> None:
    acl = allow(PatternType.LITERAL, "orders", host="0:0:0:0:0:0:0:1")
    index = AclIndex().with_changes({acl.pattern: [acl.entry]})
    host = comparable_host("::1")
    assert index.decide("User:alice", host, 3, AclResourceType.TOPIC, "orders") is Decision.ALLOWED
    assert comparable_host("::ffff:127.0.0.1") == "127.0.0.1"
    assert comparable_host("broker.example") == "broker.example"


def test_a_range_of_addresses_is_a_host() -> None:
    """KIP-1276: the address of a range need not be its first."""
    index = AclIndex().with_changes(
        {
            RANGED: [
                AccessControlEntry("User:a", "10.1.7.0/16", AclOperation.READ, PermissionType.ALLOW),
                AccessControlEntry("User:a", "2001:db8::/32", AclOperation.READ, PermissionType.ALLOW),
                AccessControlEntry("User:a", "10.1.9.0/24", AclOperation.READ, PermissionType.DENY),
                AccessControlEntry("User:b", "10.1.0.0/33", AclOperation.READ, PermissionType.ALLOW),
            ]
        }
    )
    decisions = {
        host: index.decide("User:a", comparable_host(host), AclOperation.READ, AclResourceType.TOPIC, "t")
        for host in (
            "10.1.0.1",
            "10.1.9.1",
            "10.2.0.1",
            "2001:db8:0:0:0:0:0:9",
            "2001:db9::1",
            "::ffff:10.1.0.1",
            "x",
        )
    }
    assert [host for host, one in decisions.items() if one is Decision.ALLOWED] == [
        "10.1.0.1",
        "2001:db8:0:0:0:0:0:9",
        "::ffff:10.1.0.1",
    ]
    assert index.allows_any("User:a", "10.1.0.1", AclOperation.READ, AclResourceType.TOPIC)
    assert not index.allows_any("User:a", "10.2.0.1", AclOperation.READ, AclResourceType.TOPIC)
    # One of before, that no range is.
    assert (
        index.decide("User:b", "10.1.0.1", AclOperation.READ, AclResourceType.TOPIC, "t") is Decision.DENIED
    )


@pytest.mark.parametrize(
    "host", ["10.1.0.0/33", "10.1/16", "/", "somewhere/8", "2001:db8::/129", "10.1.0.0/255.255.0.0"]
)
def test_what_is_no_range_is_refused(host: str) -> None:
    with pytest.raises(InvalidRequest, match="no range of addresses"):
        check_binding(
            AclBinding(RANGED, AccessControlEntry("User:a", host, AclOperation.READ, PermissionType.ALLOW))
        )
