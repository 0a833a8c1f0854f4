"""Subscriptions and assignments of consumers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.consumer import (
    ConsumerProtocolAssignment,
    PartitionsByTopic,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
    parse_subscription,
)

NAMES = st.text("abc", min_size=1, max_size=3)
PARTITIONS = st.lists(st.tuples(NAMES, st.lists(st.integers(0, 9)).map(tuple))).map(tuple)


@given(st.lists(NAMES).map(tuple), PARTITIONS, st.integers(0, 3), st.none() | st.binary(max_size=9))
def test_subscriptions_are_read_back(
    topics: tuple[str, ...], owned: PartitionsByTopic, version: int, user_data: bytes | None
) -> None:
    content = build_subscription(
        topics, version=version, user_data=user_data, owned_partitions=owned, generation_id=4, rack_id="r"
    )
    assert parse_subscription(content) == Subscription(
        version,
        topics,
        user_data,
        owned if version >= 1 else (),
        4 if version >= 2 else -1,
        "r" if version >= 3 else None,
    )


@pytest.mark.thorough
@given(PARTITIONS, st.integers(0, 3))
def test_assignments_are_read_back(partitions: PartitionsByTopic, version: int) -> None:
    content = build_assignment(partitions, version=version, user_data=b"x")
    assert parse_assignment(content) == ConsumerProtocolAssignment(version, partitions, b"x")


def test_the_bytes_of_kafka_clients() -> None:
    assert build_subscription(["t"], version=0) == b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    assert build_assignment([("t", [1, 2])], version=0) == (
        b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\2\xff\xff\xff\xff"
    )


def test_a_version_of_tomorrow_is_read_as_far_as_it_is_known() -> None:
    content = bytearray(build_subscription(["t"], rack_id="r")) + b"more"
    content[:2] = b"\0\x09"
    assert parse_subscription(bytes(content))[:2] == (9, ("t",))
    # And answered as far as that.
    assert parse_assignment(build_assignment([("t", [1])], version=9)) == ConsumerProtocolAssignment(
        3, (("t", (1,)),)
    )


def test_no_bytes_are_an_empty_assignment() -> None:
    assert parse_assignment(b"") == ConsumerProtocolAssignment(0, ())


@pytest.mark.parametrize("content", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\2a"])
def test_wrong_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_subscription(content)


@given(st.binary(max_size=50))
def test_random_bytes(content: bytes) -> None:
    for parse in (parse_subscription, parse_assignment):
        try:
            parse(content)
        except InvalidRequest:
            continue
