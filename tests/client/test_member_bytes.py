"""The bytes that group members exchange, compared with kafka-python's reader and with themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.member_bytes import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition

topics = st.lists(st.text(max_size=20), unique=True, max_size=5)
partitions = st.lists(
    st.builds(TopicPartition, st.text(max_size=10), st.integers(0, 2**31 - 1)), unique=True, max_size=10
)


def test_the_bytes_are_as_the_layout_says() -> None:
    assert encode_subscription(["ab"]) == b"\0\1" + b"\0\0\0\1\0\2ab" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
    assert encode_assignment([TopicPartition("ab", 3)]) == (
        b"\0\0" + b"\0\0\0\1\0\2ab\0\0\0\1\0\0\0\3" + b"\xff\xff\xff\xff"
    )


@given(topics)
def test_a_subscription_is_read_as_it_was_written(wanted: list[str]) -> None:
    assert decode_subscription(encode_subscription(wanted)) == tuple(wanted)


@given(partitions)
def test_an_assignment_is_read_as_it_was_written(given_partitions: list[TopicPartition]) -> None:
    read = decode_assignment(encode_assignment(given_partitions))
    assert sorted(read) == sorted(given_partitions)


@given(partitions, st.integers(0, 40))
def test_cut_bytes_are_refused(given_partitions: list[TopicPartition], cut: int) -> None:
    whole = encode_assignment(given_partitions)
    body_end = len(whole) - 4  # what follows is user data, which readers ignore
    if 0 < cut < body_end:
        with pytest.raises(InvalidRequest):
            decode_assignment(whole[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_assignment, decode_subscription):
        try:
            decode(data)
        except InvalidRequest:
            continue


def test_no_bytes_are_no_assignment() -> None:
    assert decode_assignment(b"") == ()
