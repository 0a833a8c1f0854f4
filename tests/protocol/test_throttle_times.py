"""A throttle time that is put into an answer after it was packed is where clients read it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from odradek.protocol.api import ApiKey
from odradek.protocol.codec import decode_response, encode_response
from odradek.protocol.messages import response
from odradek.protocol.throttle_times import throttle_time_of, with_throttle_time


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_packed_answer_that_begins_with_it(version: int) -> None:
    api = ApiKey.HEARTBEAT
    packed = encode_response(api, version, 77, response(api, version, throttle_time=5, error_code=27))
    for told_ms, expected_ms in ((1234, 1234), (3, 5), (0, 5)):
        told = with_throttle_time(api, version, packed, told_ms)
        assert isinstance(told, bytes)
        assert throttle_time_of(api, version, told) == expected_ms
        correlation_id, answer = decode_response(api, version, memoryview(told)[4:])
        assert (correlation_id, answer.error_code) == (77, 27)
        assert answer.throttle_time == timedelta(milliseconds=expected_ms)


def test_an_answer_without_the_field_stays_as_it_is() -> None:
    packed = encode_response(ApiKey.HEARTBEAT, 0, 77, response(ApiKey.HEARTBEAT, 0, error_code=27))
    assert with_throttle_time(ApiKey.HEARTBEAT, 0, packed, 1234) == packed
