"""The span that a request belongs to, in its header or in its first record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.telemetry.spans import (
    SpanContext,
    encode_tags,
    find_producer,
    find_sender,
    parse_span_context,
)
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import (
    REQUEST_TAGS,
    RequestHeader,
    parse_request_header,
    request_header,
    tag_request,
)
from odradek.wire.protocol.hot.produce import ProducedTopic, ProduceRequest
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression

TEXT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CONTEXT = SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, is_sampled=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, CONTEXT),
        (TEXT[:-2] + b"00", CONTEXT._replace(is_sampled=False)),
        (b"cc" + TEXT[2:] + b"-more", CONTEXT),
        (TEXT + b"-more", None),
        (b"ff" + TEXT[2:], None),
        (TEXT.upper(), None),
        (b"00-" + b"0" * 32 + TEXT[35:], None),
        (TEXT[:36] + b"0" * 16 + TEXT[52:], None),
        (TEXT[:-1], None),
        (b"", None),
        (b"cc" + TEXT[2:] + b"-" + b"a" * 300, None),
    ],
)
def test_a_span_context_is_read_as_the_standard_says(text: bytes, expected: SpanContext | None) -> None:
    assert parse_span_context(text) == expected


def header_of(tags: bytes, api: ApiKey = ApiKey.METADATA, version: int = 12) -> RequestHeader:
    token = REQUEST_TAGS.set(tags)
    try:
        frame = request_header(api_key=api, api_version=version, correlation_id=1, client_id="c")
    finally:
        REQUEST_TAGS.reset(token)
    header = parse_request_header(memoryview(frame + b"body"))
    assert frame[header.body_position :] == b""
    return header


def test_a_request_carries_the_span_of_its_sender() -> None:
    assert encode_tags(CONTEXT).endswith(TEXT)
    assert find_sender(header_of(encode_tags(CONTEXT))) == CONTEXT
    assert find_sender(header_of(b"\0")) is None


def test_a_header_without_room_for_tags_carries_none() -> None:
    assert find_sender(header_of(encode_tags(CONTEXT), version=1)) is None


def test_other_tags_are_skipped() -> None:
    own = encode_tags(CONTEXT)
    assert find_sender(header_of(b"\2\5\3abc" + own[1:])) == CONTEXT
    assert find_sender(header_of(b"\1\5\3abc")) is None


def test_a_forwarded_request_gets_the_span_in_place_of_its_own_tags() -> None:
    frame = memoryview(
        request_header(api_key=ApiKey.CREATE_TOPICS, api_version=7, correlation_id=1, client_id="client")
        + b"body"
    )
    header = parse_request_header(frame)
    assert tag_request(frame, header) is frame
    token = REQUEST_TAGS.set(encode_tags(CONTEXT))
    try:
        tagged = tag_request(frame, header)
        again = tag_request(tagged, parse_request_header(tagged))
    finally:
        REQUEST_TAGS.reset(token)
    for one in (tagged, again):
        read = parse_request_header(one)
        assert find_sender(read) == CONTEXT
        assert (read.client_id, bytes(one[read.body_position :])) == ("client", b"body")


def produce(batch: bytes) -> ProduceRequest:
    topic = ProducedTopic(b"", "t", [(0, memoryview(bytearray(batch)))])
    return ProduceRequest(None, -1, 1000, [topic])


@pytest.mark.parametrize("compression", list(Compression))
def test_a_producers_span_is_that_of_its_first_record(compression: Compression) -> None:
    batch = build_batch(
        [
            (1, None, b"value", (("other", b"x"), ("traceparent", TEXT))),
            (1, None, b"value", (("traceparent", TEXT[:-2] + b"00"),)),
        ],
        compression=compression,
    )
    assert find_producer(produce(bytes(batch))) == CONTEXT


def test_records_without_the_header_have_no_span() -> None:
    assert find_producer(produce(bytes(build_batch([(1, b"k", b"v")])))) is None
    assert find_producer(produce(bytes(build_batch([(1, b"k", b"v", (("traceparent", None),))])))) is None
    assert find_producer(ProduceRequest(None, 1, 1000, [])) is None


@given(st.binary(max_size=200), st.integers(0, 120))
def test_damage_is_no_span_and_no_error(damage: bytes, position: int) -> None:
    batch = bytearray(build_batch([(1, None, b"value", (("traceparent", TEXT),))]))
    batch[position : position + len(damage)] = damage
    found = find_producer(produce(bytes(batch)))
    assert found is None or isinstance(found, SpanContext)
