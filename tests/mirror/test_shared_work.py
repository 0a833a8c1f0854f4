"""Shares of partitions, positions with their sources, the bandwidth's limit, ACLs for copies: all without I/O."""

from __future__ import annotations

import uuid

from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek.mirror.bandwidth import Bandwidth
from odradek.mirror.flow import translate_acl
from odradek.mirror.positions import (
    Mismatch,
    SourceIdentity,
    build_committed_position,
    read_position,
    source_cluster,
)
from odradek.mirror.source_batches import Position
from odradek.mirror.worker import Place, decode_place, encode_place, share_out
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

HERE = SourceIdentity("cluster-1", uuid.UUID(int=7))


def test_shares_are_even_and_have_each_partition_once() -> None:
    partitions = [TopicPartition(topic, number) for topic in "abc" for number in range(3)]
    shares = share_out(["y", "x", "z", "w"], partitions)
    assert [place.number for _, (_, place) in sorted(shares.items())] == [0, 1, 2, 3]
    assert sorted(len(share) for share, _ in shares.values()) == [2, 2, 2, 3]
    assert sorted(key for share, _ in shares.values() for key in share) == partitions
    assert shares == share_out(["z", "w", "y", "x"], partitions)


def test_a_place_survives_its_bytes_and_none_is_that_of_an_only_member() -> None:
    assert decode_place(encode_place(Place(2, 5))) == Place(2, 5)
    assert decode_place(None) == decode_place(b"") == decode_place(b"[]") == Place(0, 1)


def test_a_position_counts_for_its_own_topic_alone() -> None:
    saved = build_committed_position(Position(42, 3), HERE)
    assert read_position(saved, HERE) == Position(42, 3)
    assert source_cluster(saved.metadata) == "cluster-1"
    other = read_position(saved, HERE._replace(cluster_id="cluster-2"))
    assert isinstance(other, Mismatch) and other.kind == "cluster-changed"
    again = read_position(saved, HERE._replace(topic_id=uuid.UUID(int=8)))
    assert isinstance(again, Mismatch) and again.kind == "topic-recreated"
    # A broker without topic ids cannot show that the topic is another one.
    assert read_position(saved, HERE._replace(topic_id=uuid.UUID(int=0))) == Position(42, 3)


def test_a_position_of_a_user_counts_as_it_is() -> None:
    for metadata in ("", "by hand", "{}", '{"cluster": 1}'):
        assert read_position(CommittedOffset(9, 4, metadata), HERE) == Position(9, -1)
        assert source_cluster(metadata) is None


def test_the_average_of_bytes_is_limited() -> None:
    now = [0.0]
    bandwidth = Bandwidth(1_000, now=lambda: now[0])
    assert bandwidth.delay_seconds() == 0.0
    bandwidth.note_read(3_000)
    assert bandwidth.delay_seconds() == 3.0
    now[0] = 2.0
    assert bandwidth.delay_seconds() == 1.0
    now[0] = 100.0
    bandwidth.note_read(1_500)  # a second's worth was saved, and no more
    assert bandwidth.delay_seconds() == 0.5
    unlimited = Bandwidth(0, now=lambda: now[0])
    unlimited.note_read(10**12)
    assert unlimited.delay_seconds() == 0.0


def test_nobody_may_write_to_copies_but_the_mirror() -> None:
    pattern = ResourcePattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)

    def of(operation: AclOperation, permission: PermissionType) -> AclBinding:
        return AclBinding(pattern, AccessControlEntry("User:x", "*", operation, permission))

    assert translate_acl(of(AclOperation.WRITE, PermissionType.ALLOW), "a.orders") is None
    all_of_it = translate_acl(of(AclOperation.ALL, PermissionType.ALLOW), "a.orders")
    assert all_of_it is not None and all_of_it.entry.operation is AclOperation.READ
    denied = translate_acl(of(AclOperation.WRITE, PermissionType.DENY), "a.orders")
    assert denied is not None and denied.entry.operation is AclOperation.WRITE
    assert denied.pattern.name == "a.orders"
