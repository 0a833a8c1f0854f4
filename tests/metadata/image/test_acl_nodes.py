"""Nodes of ACLs: Kafka's words and paths, any name, and errors that name the node."""

from __future__ import annotations

import json

import pytest

from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image import acl_nodes
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import ClusterImage
from odradek.metadata.image.image_building import apply
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

ENTRY = AccessControlEntry("User:CN=a,O=b", "*", AclOperation.DESCRIBE_CONFIGS, PermissionType.DENY)


@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.PREFIXED])
@pytest.mark.parametrize("name", ["orders", "*", "a/b", "..", "ü %2F"])
def test_paths_and_contents_can_be_read_back(name: str, pattern_type: PatternType) -> None:
    pattern = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, name, pattern_type)
    path = acl_nodes.path_of(pattern)
    assert acl_nodes.pattern_at(path) == pattern
    change = NodeChange(path, acl_nodes.write_acls([ENTRY]))
    assert acl_nodes.read_acls(change) == (ENTRY,)


def test_the_layout_is_that_of_kafka_with_zookeeper() -> None:
    literal = ResourcePattern(AclResourceType.DELEGATION_TOKEN, "t", PatternType.LITERAL)
    assert acl_nodes.path_of(literal) == "/kafka-acl/DelegationToken/t"
    prefixed = literal._replace(type=AclResourceType.TOPIC, pattern_type=PatternType.PREFIXED)
    assert acl_nodes.path_of(prefixed) == "/kafka-acl-extended/prefixed/Topic/t"
    assert json.loads(acl_nodes.write_acls([ENTRY])) == {
        "version": 1,
        "acls": [
            {
                "principal": "User:CN=a,O=b",
                "permissionType": "Deny",
                "operation": "DescribeConfigs",
                "host": "*",
            }
        ],
    }


@pytest.mark.parametrize("data", [b"", b"{}", b'{"acls":[{"principal":"User:a"}]}', b'{"acls":[1]}'])
def test_what_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(StoreError, match="/kafka-acl/Topic/t"):
        acl_nodes.read_acls(NodeChange("/kafka-acl/Topic/t", data))


def test_an_image_has_what_the_nodes_say() -> None:
    pattern = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL)
    path = acl_nodes.path_of(pattern)
    empty = ClusterImage()
    assert apply(empty, []).acls is None
    given = apply(empty, [NodeChange("/kafka-acl", b""), NodeChange(path, acl_nodes.write_acls([ENTRY]))])
    assert given.acls is not None
    assert given.acls.entries(pattern) == (ENTRY,)
    assert apply(given, []) is given
    gone = apply(given, [NodeChange(path, None)])
    assert gone.acls is not None
    assert len(gone.acls) == 0
    assert len(given.acls) == 1
