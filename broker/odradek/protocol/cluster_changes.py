"""How a broker follows the active controller: our own API, spoken only between our own processes.

    request   api_key int16 = 1000, api_version int16, correlation_id int32, client_id nullable string,
              broker_id int32, broker_epoch int64, controller_epoch int32, number int64, wait_ms_max int32
    response  correlation_id int32, error_code int16, controller_epoch int32, next_number int64, is_snapshot int8,
              is_complete int8, count int32, then for each node:
                  path length uint16, path, version int32, data length int32 (-1: gone), data

Integers are big-endian. "I have applied everything below `number` of the term `controller_epoch`" is answered with what
came after, once there is anything or `wait_ms_max` has passed. Kafka's API numbers are far below 1000, so that nobody
mistakes one for the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from typing import Final, NamedTuple

from odradek.foundation.errors import InvalidRequest

API_KEY: Final = 1000
VERSION: Final = 0

_HEADER: Final = Struct(">hhih")
_REQUEST: Final = Struct(">iqiqi")
_RESPONSE: Final = Struct(">ihiqbbi")
_PATH_LENGTH: Final = Struct(">H")
_VERSION_AND_LENGTH: Final = Struct(">ii")
_SIZE: Final = Struct(">i")

# A node: path, bytes or None when it is gone, version.
Node = tuple[str, bytes | None, int]


class FollowRequest(NamedTuple):
    """What a broker has applied, and how long it would wait for more."""

    correlation_id: int
    client_id: str
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    number: int
    wait_ms_max: int


class FollowResponse(NamedTuple):
    """What the broker lacks; with an `error_code` other than 0 there is nothing else in it."""

    correlation_id: int
    error_code: int
    controller_epoch: int
    next_number: int
    is_snapshot: bool
    is_complete: bool
    nodes: tuple[Node, ...]


def pack_request(request: FollowRequest) -> bytes:
    """A whole frame, its size included."""
    name = request.client_id.encode()
    body = (
        _HEADER.pack(API_KEY, VERSION, request.correlation_id, len(name))
        + name
        + _REQUEST.pack(
            request.broker_id,
            request.broker_epoch,
            request.controller_epoch,
            request.number,
            request.wait_ms_max,
        )
    )
    return _SIZE.pack(len(body)) + body


def parse_request(frame: memoryview) -> FollowRequest:
    """The request in a frame without its size. Raises InvalidRequest."""
    try:
        api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
        if api_key != API_KEY or version != VERSION:
            raise InvalidRequest(
                f"a request of API {api_key} version {version} is not one to follow the cluster by; "
                "are both processes of the same release?"
            )
        start = _HEADER.size
        end = start + max(length, 0)
        client_id = str(frame[start:end], "utf-8")
        return FollowRequest(correlation_id, client_id, *_REQUEST.unpack_from(frame, end))
    except (error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"a request to follow the cluster cannot be read: {failure}") from failure


def pack_response(
    *,
    correlation_id: int,
    error_code: int = 0,
    controller_epoch: int = -1,
    next_number: int = 0,
    is_snapshot: bool = False,
    is_complete: bool = True,
    nodes: Iterable[Node] = (),
) -> bytes:
    """A whole frame, its size included."""
    count = 0
    parts: list[bytes] = [b"", b""]
    for path, data, version in nodes:
        name = path.encode()
        count += 1
        parts.append(_PATH_LENGTH.pack(len(name)))
        parts.append(name)
        parts.append(_VERSION_AND_LENGTH.pack(version, -1 if data is None else len(data)))
        if data:
            parts.append(data)
    parts[1] = _RESPONSE.pack(
        correlation_id, error_code, controller_epoch, next_number, is_snapshot, is_complete, count
    )
    parts[0] = _SIZE.pack(sum(map(len, parts)))
    return b"".join(parts)


def parse_response(frame: memoryview) -> FollowResponse:
    """The answer in a frame without its size. Raises InvalidRequest."""
    try:
        correlation_id, error_code, controller_epoch, next_number, is_snapshot, is_complete, count = (
            _RESPONSE.unpack_from(frame)
        )
        position = _RESPONSE.size
        if not 0 <= count <= len(frame):
            raise InvalidRequest(
                f"an answer to a follower says that it has {count} nodes in {len(frame)} bytes"
            )
        nodes: list[Node] = []
        for _ in range(count):
            (length,) = _PATH_LENGTH.unpack_from(frame, position)
            position += _PATH_LENGTH.size
            path = str(frame[position : position + length], "utf-8")
            position += length
            version, size = _VERSION_AND_LENGTH.unpack_from(frame, position)
            position += _VERSION_AND_LENGTH.size
            if size > len(frame) - position:
                raise InvalidRequest(f"an answer to a follower was cut off within {path}")
            nodes.append((path, None if size < 0 else bytes(frame[position : position + size]), version))
            position += max(size, 0)
    except (error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"an answer to a follower cannot be read: {failure}") from failure
    return FollowResponse(
        correlation_id,
        error_code,
        controller_epoch,
        next_number,
        bool(is_snapshot),
        bool(is_complete),
        tuple(nodes),
    )
