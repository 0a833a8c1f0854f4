"""Spans of traces: how processes name them to each other (W3C Trace Context), and where they go.

The header of a request may name a span of its sender, as brokers do among themselves. Producers that OpenTelemetry
instruments give each record a header `traceparent`. A Produce request joins the trace of its first record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from odradek.foundation.errors import CorruptRecord, InvalidRequest
from odradek.foundation.telemetry_limits import TRACED_BATCH_BYTES_MAX, TRACED_RECORDS_BYTES_MAX
from odradek.wire.protocol.framing import RequestHeader, TaggedRequestHeader
from odradek.wire.protocol.hot.produce import ProduceRequest
from odradek.wire.protocol.varint import encode_unsigned_varint, read_unsigned_varint
from odradek.wire.records.batch import HEADER_BYTES, MAGIC, BatchView
from odradek.wire.records.compression import Compression, decompress
from odradek.wire.records.record import read_headers, read_span

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]

_TEXT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_TEXT_BYTES_MAX: Final = 256
_VERSION_THAT_IS_NONE: Final = b"ff"
_FIRST_VERSION: Final = b"00"
_SAMPLED: Final = 1
# Of the tagged fields of a request's header. Kafka gives low numbers, as each of its tags.
_TAG: Final = 10_437
_RECORD_HEADER: Final = "traceparent"


class SpanContext(NamedTuple):
    """A span as other processes know it."""

    trace_id: int
    span_id: int
    is_sampled: bool

    def encode(self) -> bytes:
        """The value of `traceparent`."""
        return b"00-%032x-%016x-%02x" % (self.trace_id, self.span_id, self.is_sampled)


def parse_span_context(text: bytes) -> SpanContext | None:
    """The span that `traceparent` names (W3C Trace Context, section 3.2); None where it names none."""
    found = _TEXT.fullmatch(text) if len(text) <= _TEXT_BYTES_MAX else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == _VERSION_THAT_IS_NONE or (version == _FIRST_VERSION and rest is not None):
        return None
    context = SpanContext(int(trace, 16), int(span, 16), bool(int(flags, 16) & _SAMPLED))
    return context if context.trace_id and context.span_id else None


def encode_tags(context: SpanContext) -> bytes:
    """The tagged fields of a request that is a part of the span."""
    text = context.encode()
    return b"\1" + encode_unsigned_varint(_TAG) + encode_unsigned_varint(len(text)) + text


def find_sender(header: RequestHeader) -> SpanContext | None:
    """The span that the header of a request names."""
    if not isinstance(header, TaggedRequestHeader):
        return None
    data = header.tagged_fields
    count, position = read_unsigned_varint(data, 0)
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        if tag == _TAG:
            return parse_span_context(bytes(data[position : position + size]))
        position += size
    return None


def find_producer(request: ProduceRequest) -> SpanContext | None:
    """The span that the first record of a Produce request names."""
    for topic in request.topics:
        for _, batch in topic.partitions:
            if batch is not None:
                return _find_in_batch(batch)
    return None


def _find_in_batch(data: memoryview) -> SpanContext | None:
    """Damage is no error here: the broker refuses the batch, and says why."""
    if len(data) <= HEADER_BYTES:
        return None
    batch = BatchView(data)
    try:
        if batch.header.magic != MAGIC:
            return None
        payload = batch.payload
        if batch.compression is not Compression.NONE:
            if len(payload) > TRACED_BATCH_BYTES_MAX:
                return None
            payload = memoryview(decompress(payload, batch.compression, size_max=TRACED_RECORDS_BYTES_MAX))
        span = read_span(payload, 0)
        end, headers_start = span[1], span[-1]
        if payload[headers_start] == 0 or end - headers_start > TRACED_BATCH_BYTES_MAX:
            return None
        headers = read_headers(bytes(payload[headers_start:end]), 0, end - headers_start)
    except (CorruptRecord, InvalidRequest, IndexError):
        return None
    for name, value in headers:
        if name == _RECORD_HEADER:
            return None if value is None else parse_span_context(bytes(value))
    return None


class OpenSpan(Protocol):
    """A span that has begun. Times are nanoseconds since 1970."""

    @property
    def context(self) -> SpanContext: ...

    def add_child(self, name: str, start_ns: int, end_ns: int, attributes: Attributes) -> None:
        """A part of it that is over."""
        ...

    def end(self, end_ns: int, *, error: BaseException | None) -> None: ...


class Spans(Protocol):
    """Where spans go to."""

    def begin(
        self, name: str, start_ns: int, attributes: Attributes, *, parent: SpanContext | None
    ) -> OpenSpan:
        """A span of a request that this process serves. Without a parent, a trace begins with it."""
        ...
