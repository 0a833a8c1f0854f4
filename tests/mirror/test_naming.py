"""Names of mirrored and internal topics: those of MirrorMaker 2, without its loop of heartbeats."""

import pytest

from odradek.mirror.naming import (
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_heartbeats,
    is_loop,
    is_mirrorable,
)

DEFAULT = ReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(known_source_alias="a")


def test_the_default_policy_puts_the_source_before_the_name() -> None:
    assert DEFAULT.remote_topic("a", "orders.eu") == "a.orders.eu"
    assert DEFAULT.source_alias("a.orders.eu") == "a"
    assert DEFAULT.upstream_topic("a.orders.eu") == "orders.eu"
    assert DEFAULT.original_topic("c.a.orders") == "orders"
    assert (DEFAULT.source_alias("orders"), DEFAULT.upstream_topic("orders")) == (None, None)
    assert DEFAULT.original_topic("orders") == "orders"


@pytest.mark.parametrize("topic", ["a.", "a..", "."])
def test_a_name_that_ends_with_its_separator_was_not_mirrored(topic: str) -> None:
    assert DEFAULT.source_alias(topic) is None
    assert DEFAULT.original_topic(topic) == topic


def test_a_name_that_begins_with_the_separator_has_an_empty_alias() -> None:
    assert (DEFAULT.source_alias(".orders"), DEFAULT.upstream_topic(".orders")) == ("", "orders")


def test_the_separator_is_the_users() -> None:
    policy = ReplicationPolicy(separator="__")
    assert policy.remote_topic("a", "b.c") == "a__b.c"
    assert policy.upstream_topic("a__b.c") == "b.c"
    assert policy.source_alias("a.b") is None
    assert policy.checkpoints_topic("a") == "a__checkpoints__internal"
    assert policy.offset_syncs_topic("b") == "mm2-offset-syncs__b__internal"
    assert policy.is_internal("a__checkpoints__internal") and policy.is_internal(
        "mm2-offset-syncs__b__internal"
    )


def test_internal_names_keep_full_stops_where_the_user_says_so() -> None:
    policy = ReplicationPolicy(separator="_", is_separator_in_internal_names=False)
    assert policy.checkpoints_topic("a") == "a.checkpoints.internal"
    assert policy.offset_syncs_topic("b") == "mm2-offset-syncs.b.internal"
    assert policy.remote_topic("a", "orders") == "a_orders"


def test_internal_names_are_those_of_mirror_maker() -> None:
    assert DEFAULT.checkpoints_topic("A") == "A.checkpoints.internal"
    assert DEFAULT.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert DEFAULT.heartbeats_topic() == "heartbeats"


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        ".hidden",
        "mm2-offset-syncs.B.internal",
        "mm2-offsets.A.internal",
        "A.checkpoints.internal",
        "connect-offsets-internal",
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_internal_topics_are_never_mirrored(policy: ReplicationPolicy, topic: str) -> None:
    assert policy.is_internal(topic)
    assert not is_mirrorable(policy, topic, source_alias="a", target_alias="b")


def test_the_identity_policy_renames_heartbeats_alone() -> None:
    assert IDENTITY.remote_topic("a", "orders") == "orders"
    assert IDENTITY.source_alias("x.orders") == "a"
    assert IDENTITY.upstream_topic("x.orders") == "x.orders"
    assert IDENTITY.original_topic("x.orders") == "x.orders"
    assert IDENTITY.remote_topic("a", "heartbeats") == "a.heartbeats"
    assert IDENTITY.source_alias("b.heartbeats") == "b"
    assert IDENTITY.upstream_topic("b.heartbeats") == "heartbeats"
    assert (IDENTITY.source_alias("heartbeats"), IDENTITY.upstream_topic("heartbeats")) == (None, None)
    assert IDENTITY.original_topic("c.b.heartbeats") == "heartbeats"


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_heartbeats_are_known_however_far_they_came(policy: ReplicationPolicy) -> None:
    assert is_heartbeats(policy, "heartbeats") and is_heartbeats(policy, "c.a.heartbeats")
    assert not is_heartbeats(policy, "my-heartbeats") and not is_heartbeats(policy, "orders")


def test_a_topic_that_came_from_the_target_does_not_go_back() -> None:
    assert is_loop(DEFAULT, "b.orders", source_alias="a", target_alias="b")
    assert is_loop(DEFAULT, "c.b.orders", source_alias="a", target_alias="b")
    assert not is_loop(DEFAULT, "c.orders", source_alias="a", target_alias="b")
    assert not is_loop(DEFAULT, "orders", source_alias="a", target_alias="b")
    # A user's own name that begins like the source's alias is as good as any other.
    assert not is_loop(DEFAULT, "a.orders", source_alias="a", target_alias="b")
    # The policy of identity cannot see loops, and must not end in one itself.
    assert not is_loop(IDENTITY, "b.orders", source_alias="a", target_alias="b")


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_heartbeats_go_one_hop_further_and_never_round(policy: ReplicationPolicy) -> None:
    names = ["heartbeats"]
    for _ in range(3):  # `a` and `b` are one cluster: what is mirrored is there to be mirrored again
        names += [
            policy.remote_topic("a", name)
            for name in names
            if is_mirrorable(policy, name, source_alias="a", target_alias="b")
            and policy.remote_topic("a", name) not in names
        ]
    assert names == ["heartbeats", "a.heartbeats"]
    assert is_mirrorable(policy, "c.heartbeats", source_alias="a", target_alias="b")
    assert not is_mirrorable(policy, "b.heartbeats", source_alias="a", target_alias="b")
