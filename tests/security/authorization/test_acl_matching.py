"""The index decides as a scan of all ACLs would, after any additions and removals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from odradek.security.authorization.acl_matching import AclIndex, Decision
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    comparable_host,
)
from tests.security.authorization import naive
from tests.security.authorization.strategies import HOSTS, NAMES, OPERATIONS, PRINCIPALS, TYPES, steps
from tests.support.examples import examples

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
