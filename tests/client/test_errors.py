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


def test_a_subject_that_the_broker_names_is_not_said_twice() -> None:
    failure = error_for(36, "Topic 'a' already exists.", about="topic 'a'")
    assert str(failure) == "Topic 'a' already exists."


def test_every_error_of_the_table_becomes_its_exception() -> None:
    for row in ROWS:
        failure = error_for(row.code)
        assert type(failure) is (row.kind or UnexpectedErrorCode), row
        assert str(failure) == (row.text if row.kind else f"the broker answered with error code {row.code}")
