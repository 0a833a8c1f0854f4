"""Any bytes as a message: it is read or refused, in bounded time and memory."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidRequest, UnsupportedVersion
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_request, decode_response
from odradek.wire.protocol.reading import structure_reader
from odradek.wire.protocol.schema import REQUEST, message_class, versions_of
from odradek.wire.protocol.writing import structure_writer
from tests.support.examples import examples
from tests.wire.protocol.schemas import API_KEYS, messages


def decode_or_refuse(api_key: int, version: int, data: bytes) -> Any:
    try:
        return decode_request(api_key, version, memoryview(data), 0)
    except InvalidRequest:
        return None


@pytest.mark.thorough
@given(st.data(), st.binary(max_size=120))
@settings(deadline=None, max_examples=examples(400))
def test_random_bytes(data: st.DataObject, content: bytes) -> None:
    api_key = data.draw(st.sampled_from(API_KEYS))
    version = data.draw(st.sampled_from(versions_of(api_key)))
    decode_or_refuse(api_key, version, content)


@pytest.mark.thorough
@given(st.data())
@settings(deadline=None, max_examples=examples(200), suppress_health_check=list(HealthCheck))
def test_changed_and_truncated_messages(data: st.DataObject) -> None:
    api_key = data.draw(st.sampled_from(API_KEYS))
    version = data.draw(st.sampled_from(versions_of(api_key)))
    structure = message_class(api_key, version, REQUEST)
    content = bytearray()
    structure_writer(structure)(content, data.draw(messages(structure)))
    if content:
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
        decode_or_refuse(api_key, version, bytes(content))
        decode_or_refuse(api_key, version, bytes(content[:position]))


@pytest.mark.parametrize(
    ("version", "content"),
    [
        (1, b"\x7f\xff\xff\xff"),
        (1, b"\xff\xff\xff\xfe"),
        (12, b"\xff\xff\xff\xff\x07"),
        (12, b"\xff\xff\xff\xff\x0f"),
        (12, b"\xff\xff\xff\xff\x7f"),
    ],
)
def test_an_announced_length_is_not_believed(version: int, content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="METADATA version"):
        decode_request(ApiKey.METADATA, version, memoryview(content), 0)


def test_more_elements_than_allowed_are_refused_before_they_are_made() -> None:
    count = REQUEST_ARRAY_ELEMENTS_MAX + 1
    content = struct.pack(">i", count) + bytes(2 * count)
    with pytest.raises(InvalidRequest, match="too many elements"):
        decode_request(ApiKey.METADATA, 1, memoryview(content), 0)


def test_null_where_a_value_is_due_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="topics is null"):
        decode_request(ApiKey.LIST_OFFSETS, 1, memoryview(b"\0\0\0\1\xff\xff\xff\xff"), 0)
    with pytest.raises(InvalidRequest, match="name is null"):
        decode_request(ApiKey.METADATA, 1, memoryview(b"\0\0\0\1\xff\xff"), 0)


def test_bytes_after_a_message_are_ignored() -> None:
    message = decode_request(ApiKey.METADATA, 1, memoryview(b"\0\0\0\1\0\1amore"), 0)
    assert [topic.name for topic in message.topics] == ["a"]


def test_a_tagged_field_must_have_the_size_it_says() -> None:
    structure = message_class(ApiKey.FETCH, 12, REQUEST)
    plain = bytearray()
    structure_writer(structure)(plain, _fetch(structure, cluster_id="abc"))
    assert structure_reader(structure)(memoryview(plain), 0, [100])[0].cluster_id == "abc"
    assert plain.count(b"\x04\x04abc") == 1
    longer = plain.replace(b"\x04\x04abc", b"\x05\x04abc\x00")
    with pytest.raises(InvalidRequest, match="too many"):
        structure_reader(structure)(memoryview(longer), 0, [100])


def _fetch(structure: Any, **fields: Any) -> Any:
    from odradek.wire.protocol.messages import structure_builder

    return structure_builder(structure)(fields)


def test_versions_and_apis_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedVersion, match="version 2 of PRODUCE"):
        decode_request(ApiKey.PRODUCE, 2, memoryview(b""), 0)
    with pytest.raises(UnsupportedVersion, match="number 4000"):
        decode_request(4000, 0, memoryview(b""), 0)


def test_a_truncated_answer() -> None:
    with pytest.raises(InvalidRequest, match="cut off"):
        decode_response(ApiKey.METADATA, 1, memoryview(b"\0\0\0\1\0\0"))
    with pytest.raises(InvalidRequest, match="too short"):
        decode_response(ApiKey.METADATA, 1, memoryview(b"\0"))
