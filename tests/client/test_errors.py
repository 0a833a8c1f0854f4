"""Codes on the wire become exceptions; none is lost and none is taken for success."""

from __future__ import annotations

import pytest

from odradek.client.errors import (
    CODES_BY_ERROR,
    ERRORS_BY_CODE,
    RETRIABLE,
    ConnectionFailed,
    UnexpectedErrorCode,
    error_for,
    raise_for,
)
from odradek.foundation import errors


def test_zero_is_success() -> None:
    assert error_for(0) is None
    raise_for(0)


def test_a_code_without_a_name_is_still_an_error() -> None:
    with pytest.raises(UnexpectedErrorCode, match="12345"):
        raise_for(12345)


def test_the_brokers_message_and_the_subject_are_kept() -> None:
    failure = error_for(36, "Topic 'a' already exists.", about="topic 'a'")
    assert isinstance(failure, errors.TopicAlreadyExists)
    assert str(failure) == "topic 'a': Topic 'a' already exists."


def test_every_code_is_the_one_of_the_protocol() -> None:
    from kio.schema.errors import ErrorCode

    known = {int(code): code.name.replace("_", "") for code in ErrorCode}
    renamed = {
        10: "recordtoolarge",
        12: "invalidcommitoffsetsize",
        17: "invalidtopic",
        2: "corruptrecord",
        18: "recordlisttoolarge",
        89: "throttlingquotaexceeded",
        45: "outofordersequence",
        46: "duplicatesequence",
        -1: "unknownservererror",
    }
    for code, error in ERRORS_BY_CODE.items():
        name = renamed.get(code, known[code].removesuffix("error").removesuffix("exception"))
        ours = error.__name__.lower().removesuffix("error")
        assert ours.startswith(name.removesuffix("error")) or name.startswith(ours), (code, name, ours)


def test_what_is_worth_another_try_is_so_in_the_protocol_too() -> None:
    from kio.schema.errors import ErrorCode

    for error in RETRIABLE:
        if error is ConnectionFailed:
            continue
        assert ErrorCode(CODES_BY_ERROR[error]).retriable, error
