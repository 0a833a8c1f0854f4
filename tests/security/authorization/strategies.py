"""ACLs and questions out of few names, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
NAMES = ("a", "ab", "abc", "b", "*", "hardcode")
TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)
OPERATIONS = tuple(one for one in AclOperation if one > AclOperation.ALL)

patterns = st.builds(
    ResourcePattern,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
entries = st.builds(
    AccessControlEntry,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from((AclOperation.ALL, *OPERATIONS[:9])),
    st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
)
bindings = st.builds(AclBinding, patterns, entries)
# Each step adds ACLs, and removes some of those that are there.
steps = st.lists(
    st.tuples(st.lists(bindings, max_size=5), st.lists(st.integers(0, 30), max_size=4)),
    min_size=1,
    max_size=6,
)
