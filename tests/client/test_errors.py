"""Codes on the wire become exceptions; none is lost and none is taken for success."""

from __future__ import annotations

import pytest

from odradek.client.errors import UnexpectedErrorCode, error_for, raise_for
from odradek.foundation import errors
from odradek.wire.protocol.errors import ROWS


def test_zero_is_success() -> None:
    assert error_for(0) is None
    raise_for(0)


def test_a_code_without_a_name_is_still_an_error() -> None:
    with pytest.raises(UnexpectedErrorCode, match="12345"):
        raise_for(12345)


def test_the_brokers_message_and_the_subject_are_kept() -> None:
    failure = error_for(36, "It already exists.", about="topic 'a'")
    assert isinstance(failure, errors.TopicAlreadyExists)
    assert str(failure) == "topic 'a': It already exists."


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ("topic 'a'", "Topic 'a' already exists."),
        ("topic 'a/b'", "the topic name 'a/b' has characters that are not allowed"),
        ("topic 'orders'", "The topic orders currently has 3 partition(s)"),
        ("quotas of IP address here", "here is not a valid IP address"),
        ("partition orders-0", "the batch for partition orders-0 is damaged"),
        ("", "no subject"),
    ],
)
def test_a_subject_that_the_broker_names_is_not_said_twice(about: str, words: str) -> None:
    assert str(error_for(36, words, about=about)) == words


@pytest.mark.parametrize("about", ["topic 'a'", "topic 'order'", "partition orders-1"])
def test_another_subject_is_said(about: str) -> None:
    words = "Unable to place a topic orders beside partition orders-10 twice"
    assert str(error_for(36, words, about=about)) == f"{about}: {words}"


def test_every_error_of_the_table_becomes_its_exception() -> None:
    for row in ROWS:
        failure = error_for(row.code)
        assert type(failure) is (row.kind or UnexpectedErrorCode), row
        assert str(failure) == (row.text if row.kind else f"the broker answered with error code {row.code}")
