"""Whole frames to messages and back.

Messages are kio's classes (`schema`); their readers and writers are made when a version is first used and
kept. Bytes after a message are ignored, as Apache Kafka ignores them. Everything wrong with bytes that came
from outside is an InvalidRequest that names the API and its version.
"""

from __future__ import annotations

import struct
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_response_header, request_header, response_header_is_flexible
from odradek.wire.protocol.reading import Reader, structure_reader
from odradek.wire.protocol.requests import request_type
from odradek.wire.protocol.schema import REQUEST, RESPONSE, message_class
from odradek.wire.protocol.writing import Writer, structure_writer

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

# What Python raises about values that a type cannot hold.
_UNREADABLE: Final = (ValueError, TypeError, LookupError, ArithmeticError)

_put_size = Struct(">i").pack_into
_put_size_and_correlation_id = Struct(">ii").pack_into


@cache
def _reader(api_key: int, api_version: int, kind: str) -> Reader:
    return structure_reader(message_class(api_key, api_version, kind))


@cache
def _build_typed_reader(api_key: int, api_version: int) -> Reader:
    return structure_reader(message_class(api_key, api_version, REQUEST), request_type(api_key))


@cache
def _response_writer(api_key: int, api_version: int) -> tuple[Writer, bytes]:
    """The writer, and the first bytes of a frame: room for size and correlation id, and the header's tagged
    fields.
    """
    tags = b"\0" if response_header_is_flexible(api_key, api_version) else b""
    return structure_writer(message_class(api_key, api_version, RESPONSE)), bytes(8) + tags


@cache
def _request_writer(api_key: int, api_version: int) -> Writer:
    return structure_writer(message_class(api_key, api_version, REQUEST))


def decode_request(api_key: int, api_version: int, frame: memoryview, position: int) -> AnyMessage:
    """The request whose body begins at `position` of `frame`, as an instance of kio's class.

    Raises UnsupportedVersion when there is no schema, InvalidRequest when the bytes are no such request.
    """
    return _decode(_reader(api_key, api_version, REQUEST), frame, position, api_key, api_version, REQUEST)


def decode_typed_request(api_key: int, api_version: int, frame: memoryview, position: int) -> object:
    """As `decode_request`, an instance of the API's type in `requests` too: it has the fields of every version."""
    return _decode(_build_typed_reader(api_key, api_version), frame, position, api_key, api_version, REQUEST)


def encode_response(api_key: int, api_version: int, correlation_id: int, message: object) -> bytes:
    """The whole frame of an answer, its size included.

    Raises TypeError, ValueError or struct.error when `message` cannot be expressed: a fault of the caller.
    """
    write, beginning = _response_writer(api_key, api_version)
    out = bytearray(beginning)
    write(out, message)
    _put_size_and_correlation_id(out, 0, len(out) - 4, correlation_id)
    return bytes(out)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: object
) -> bytes:
    """The whole frame of a request, its size included.

    Raises UnsupportedVersion when there is no schema; TypeError, ValueError or struct.error when `message`
    cannot be expressed.
    """
    write = _request_writer(api_key, api_version)
    out = bytearray(4)
    out += request_header(
        api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=client_id
    )
    write(out, message)
    _put_size(out, 0, len(out) - 4)
    return bytes(out)


def decode_response(api_key: int, api_version: int, frame: memoryview) -> tuple[int, AnyMessage]:
    """(correlation id, message) of an answer; `frame` is without its size.

    Raises InvalidRequest when the bytes are no such answer.
    """
    frame = memoryview(frame)
    correlation_id, position = parse_response_header(frame, api_key=api_key, api_version=api_version)
    return correlation_id, decode_response_body(api_key, api_version, frame, position)


def decode_response_body(api_key: int, api_version: int, frame: memoryview, position: int) -> AnyMessage:
    """The answer whose body begins at `position` of `frame`. Raises as `decode_response`."""
    reader = _reader(api_key, api_version, RESPONSE)
    try:
        return _decode(reader, frame, position, api_key, api_version, RESPONSE)
    except _UNREADABLE as failure:
        # A peer of another release. Callers try again, as after a damaged answer.
        name = _name(api_key, api_version, RESPONSE)
        raise InvalidRequest(
            f"{name}: its {len(frame)} bytes have a value that is not known here: {failure}"
        ) from failure


def _decode(
    reader: Reader, frame: memoryview, position: int, api_key: int, api_version: int, kind: str
) -> AnyMessage:
    try:
        return reader(frame, position, [REQUEST_ARRAY_ELEMENTS_MAX])[0]
    except InvalidRequest as failure:
        raise InvalidRequest(f"{_name(api_key, api_version, kind)}: {failure}") from failure
    except struct.error as failure:
        raise InvalidRequest(
            f"{_name(api_key, api_version, kind)}: its {len(frame)} bytes end within a field; it was cut off"
        ) from failure


def _name(api_key: int, api_version: int, kind: str) -> str:
    return f"{kind} {ApiKey(api_key).name} version {api_version}"
