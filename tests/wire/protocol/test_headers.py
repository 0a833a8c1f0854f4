"""Request and response headers of every API and version."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.api import ApiKey, is_flexible
from odradek.wire.protocol.framing import parse_request_header, parse_response_header, request_header
from odradek.wire.protocol.schema import REQUEST, RESPONSE
from tests.wire.protocol.schemas import API_KEYS, classes

CLIENT_IDS = st.none() | st.text(st.characters(codec="utf-8"), max_size=60)
CORRELATION_IDS = st.integers(-(2**31), 2**31 - 1)


def test_flexible_versions_are_those_of_the_schemas() -> None:
    for api_key in API_KEYS:
        for version, structure in classes(api_key, REQUEST):
            assert is_flexible(api_key, version) == structure.__flexible__, (api_key, version)


@pytest.mark.thorough
@pytest.mark.parametrize("api_key", API_KEYS, ids=lambda api_key: api_key.name)
@given(CORRELATION_IDS, CLIENT_IDS)
def test_request_headers_equal_kio(api_key: ApiKey, correlation_id: int, client_id: str | None) -> None:
    for version, structure in classes(api_key, REQUEST):
        header = structure.__header_schema__(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        theirs = io.BytesIO()
        entity_writer(type(header))(theirs, header)
        ours = request_header(
            api_key=api_key, api_version=version, correlation_id=correlation_id, client_id=client_id
        )
        assert ours == theirs.getvalue()
        assert parse_request_header(memoryview(ours + b"body")) == (
            api_key,
            version,
            correlation_id,
            client_id or "",
            len(ours),
        )


@pytest.mark.parametrize("api_key", API_KEYS, ids=lambda api_key: api_key.name)
def test_response_headers_equal_kio(api_key: ApiKey) -> None:
    for version, structure in classes(api_key, RESPONSE):
        header = structure.__header_schema__(correlation_id=-7)
        theirs = io.BytesIO()
        entity_writer(type(header))(theirs, header)
        frame = memoryview(theirs.getvalue() + b"body")
        parsed = parse_response_header(frame, api_key=api_key, api_version=version)
        assert parsed == (-7, len(theirs.getvalue()))


def test_unknown_tagged_fields_are_skipped() -> None:
    header = struct.pack(">hhih", 3, 12, 5, 2) + b"me" + b"\x02\x00\x03abc\x80\x01\x00"
    assert parse_request_header(memoryview(header + b"body")).body_position == len(header)


def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    assert parse_request_header(memoryview(struct.pack(">hhi", 7, 0, 9))) == (7, 0, 9, "", 8)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "too short"),
        (struct.pack(">hhi", 3, 1, 1), "too short"),
        (struct.pack(">hhih", 93, 0, 1, -1), "API 93"),
        (struct.pack(">hhih", -1, 0, 1, -1), "API -1"),
        (struct.pack(">hhih", 3, -1, 1, -1), "version -1"),
        (struct.pack(">hhih", 3, 1, 1, 5) + b"abc", "cut off"),
        (struct.pack(">hhih", 3, 1, 1, -2), "length -2"),
        (struct.pack(">hhih", 3, 1, 1, 1) + b"\xff", "UTF-8"),
        (struct.pack(">hhih", 3, 12, 1, -1), "variable-length"),
        (struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x00\x09a", "tagged field"),
        (struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\xff\xff", "variable-length"),
    ],
)
def test_wrong_headers_are_refused(frame: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        parse_request_header(memoryview(frame))


@given(st.binary(max_size=60))
def test_random_bytes_are_a_header_or_refused(frame: bytes) -> None:
    try:
        header = parse_request_header(memoryview(frame))
    except InvalidRequest:
        return
    assert header.body_position <= len(frame)
