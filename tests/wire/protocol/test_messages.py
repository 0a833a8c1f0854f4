"""Messages from keyword arguments, and values that kio's types cannot hold."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.schema import versions_of
from tests.support.field_names import check_field_names

LONG_MAX = 2**63 - 1


@pytest.fixture(autouse=True)
def _names_are_checked() -> Iterator[None]:
    check_field_names()
    yield
    check_field_names(False)


def test_fields_that_a_version_lacks_are_left_out() -> None:
    for version in versions_of(ApiKey.METADATA):
        answer = messages.response(
            ApiKey.METADATA,
            version,
            brokers=[{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
            cluster_id="c",
            controller_id=1,
            topics=[{"error_code": 5, "name": "t", "topic_id": uuid.UUID(int=5), "partitions": ()}],
        )
        frame = encode_response(ApiKey.METADATA, version, 9, answer)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        correlation_id, read = decode_response(ApiKey.METADATA, version, memoryview(frame)[4:])
        assert (correlation_id, read) == (9, answer)
        assert read.topics[0].error_code.name == "leader_not_available"


def test_names_that_no_version_has_are_refused() -> None:
    with pytest.raises(TypeError, match="'toppics'"):
        messages.response(ApiKey.METADATA, 12, toppics=[])
    with pytest.raises(TypeError, match=r"response\.topics has a field 'nam'"):
        messages.response(ApiKey.METADATA, 12, topics=[{"nam": "x"}])


def test_a_field_not_given_has_the_schemas_default() -> None:
    answer: Any = messages.response(ApiKey.METADATA, 9)
    assert answer.throttle_time == timedelta(0)
    assert answer.cluster_id is None
    assert answer.controller_id == -1
    assert answer.topics == ()


def test_the_zero_uuid_is_none() -> None:
    topic = {"topic_id": uuid.UUID(int=0)}
    answer: Any = messages.response(ApiKey.METADATA, 12, topics=[topic])
    assert answer.topics[0].topic_id is None


@pytest.mark.parametrize("retention_ms", [-1, 0, 1, 86_400_000, LONG_MAX, -LONG_MAX - 1])
def test_spans_of_any_length_survive(retention_ms: int) -> None:
    request = messages.request(ApiKey.OFFSET_COMMIT, 2, group_id="g", retention_time=retention_ms)
    frame = memoryview(encode_request(ApiKey.OFFSET_COMMIT, 2, 1, None, request))[4:]
    read = decode_request(ApiKey.OFFSET_COMMIT, 2, frame, parse_request_header(frame).body_position)
    assert messages.milliseconds(read.retention_time) == retention_ms


@pytest.mark.parametrize("time_ms", [-1, 0, 1, 1_700_000_000_123, 253_402_300_800_000, LONG_MAX])
def test_times_of_any_size_survive(time_ms: int) -> None:
    partition = {"log_append_time": time_ms}
    answer = messages.response(
        ApiKey.PRODUCE, 9, responses=[{"name": "t", "partition_responses": [partition]}]
    )
    frame = encode_response(ApiKey.PRODUCE, 9, 1, answer)
    assert time_ms.to_bytes(8, "big", signed=True) in frame
    _, read = decode_response(ApiKey.PRODUCE, 9, memoryview(frame)[4:])
    assert messages.milliseconds(read.responses[0].partition_responses[0].log_append_time) == time_ms


def test_an_error_code_of_tomorrow_stays_a_number() -> None:
    frame = bytearray(encode_response(ApiKey.HEARTBEAT, 4, 1, messages.response(ApiKey.HEARTBEAT, 4)))
    frame[-3:-1] = (12345).to_bytes(2, "big")
    _, read = decode_response(ApiKey.HEARTBEAT, 4, memoryview(frame)[4:])
    assert read.error_code == 12345


def test_null_is_not_written_where_it_is_not_allowed() -> None:
    answer = messages.response(ApiKey.METADATA, 1, brokers=[{"host": None}])
    with pytest.raises(TypeError, match="host is null"):
        encode_response(ApiKey.METADATA, 1, 1, answer)


def test_the_answer_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    plain = encode_response(ApiKey.API_VERSIONS, 0, 1, messages.response(ApiKey.API_VERSIONS, 0))
    flexible = encode_response(ApiKey.API_VERSIONS, 3, 1, messages.response(ApiKey.API_VERSIONS, 3))
    assert plain[8:10] == flexible[8:10] == b"\0\0"
    assert flexible[10:] == b"\x01\0\0\0\0\0"
