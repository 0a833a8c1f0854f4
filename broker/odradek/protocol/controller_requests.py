"""What brokers ask the active controller besides Kafka's own APIs: our own, spoken only between our own processes.

Forward (1001): a client's request as it came, to be answered by the controller's handlers.

    request   header, host of the client string, frame: int32 length, bytes
    response  correlation_id int32, error_code int16, controller_epoch int32, next_number int64,
              frame: int32 length, bytes (the answer as the client would get it, its size included)

Leave (1002): a broker that wants to stop; what it leads is moved to others first.

    request   header, broker_id int32, broker_epoch int64
    response  correlation_id int32, error_code int16, left int32 (partitions that it still leads)

The header is api_key int16, api_version int16, correlation_id int32, client_id string; strings have a length int16.
Integers are big-endian. `next_number` of the term `controller_epoch` is how far the change log had come when the answer
was made: a broker that has applied that much shows its clients what they asked for. How changes themselves reach the
brokers is `cluster_changes`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from odradek.foundation.errors import InvalidRequest

FORWARD: Final = 1001
LEAVE: Final = 1002
VERSION: Final = 0

_HEADER: Final = Struct(">hhih")
_LENGTH: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_LEAVE: Final = Struct(">iq")
_FORWARDED: Final = Struct(">ihiqi")
_LEFT: Final = Struct(">ihi")


class ForwardRequest(NamedTuple):
    """A client's frame, without its size, and where the client is."""

    correlation_id: int
    client_id: str
    client_host: str
    frame: memoryview


class ForwardResponse(NamedTuple):
    """The answer's frame, its size included; empty with an `error_code` other than 0."""

    correlation_id: int
    error_code: int
    controller_epoch: int
    next_number: int
    frame: bytes


class LeaveRequest(NamedTuple):
    """Who wants to stop, in which of its registrations."""

    correlation_id: int
    client_id: str
    broker_id: int
    broker_epoch: int


class LeaveResponse(NamedTuple):
    """How many partitions the broker still leads, for want of another replica in sync."""

    correlation_id: int
    error_code: int
    left: int


def api_key_of(frame: memoryview) -> int:
    """The number of the API of a frame without its size; -1 for a frame too short to have one."""
    return int.from_bytes(frame[:2], "big", signed=True) if len(frame) >= 2 else -1


def pack_forward(
    frame: bytes | memoryview, *, correlation_id: int, client_id: str, client_host: str
) -> bytes:
    """A whole frame, its size included; `frame` is without."""
    host = client_host.encode()
    return _framed(
        _header(FORWARD, correlation_id, client_id),
        _LENGTH.pack(len(host)),
        host,
        _SIZE.pack(len(frame)),
        frame,
    )


def parse_forward(frame: memoryview) -> ForwardRequest:
    """Raises InvalidRequest."""
    try:
        correlation_id, client_id, position = _parse_header(frame, FORWARD)
        (length,) = _LENGTH.unpack_from(frame, position)
        position += _LENGTH.size
        host = str(frame[position : position + max(length, 0)], "utf-8")
        position += max(length, 0)
        (size,) = _SIZE.unpack_from(frame, position)
        position += _SIZE.size
    except (error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"a forwarded request cannot be read: {failure}") from failure
    if size != len(frame) - position:
        raise InvalidRequest(
            f"a forwarded request says that it has {size} bytes, and {len(frame) - position} follow"
        )
    return ForwardRequest(correlation_id, client_id, host, frame[position:])


def pack_forwarded(
    frame: bytes = b"",
    *,
    correlation_id: int,
    error_code: int = 0,
    controller_epoch: int = -1,
    next_number: int = 0,
) -> bytes:
    """A whole frame, its size included."""
    return _framed(
        _FORWARDED.pack(correlation_id, error_code, controller_epoch, next_number, len(frame)), frame
    )


def parse_forwarded(frame: memoryview) -> ForwardResponse:
    """Raises InvalidRequest."""
    try:
        correlation_id, error_code, controller_epoch, next_number, size = _FORWARDED.unpack_from(frame)
    except error as failure:
        raise InvalidRequest(f"the answer to a forwarded request cannot be read: {failure}") from failure
    if size != len(frame) - _FORWARDED.size:
        raise InvalidRequest(
            f"the answer to a forwarded request says that it has {size} bytes, and "
            f"{len(frame) - _FORWARDED.size} follow"
        )
    return ForwardResponse(
        correlation_id, error_code, controller_epoch, next_number, bytes(frame[_FORWARDED.size :])
    )


def pack_leave(*, correlation_id: int, client_id: str, broker_id: int, broker_epoch: int) -> bytes:
    """A whole frame, its size included."""
    return _framed(_header(LEAVE, correlation_id, client_id), _LEAVE.pack(broker_id, broker_epoch))


def parse_leave(frame: memoryview) -> LeaveRequest:
    """Raises InvalidRequest."""
    try:
        correlation_id, client_id, position = _parse_header(frame, LEAVE)
        return LeaveRequest(correlation_id, client_id, *_LEAVE.unpack_from(frame, position))
    except (error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"a broker's wish to leave cannot be read: {failure}") from failure


def pack_left(*, correlation_id: int, error_code: int = 0, left: int = 0) -> bytes:
    """A whole frame, its size included."""
    return _framed(_LEFT.pack(correlation_id, error_code, left))


def parse_left(frame: memoryview) -> LeaveResponse:
    """Raises InvalidRequest."""
    try:
        return LeaveResponse(*_LEFT.unpack_from(frame))
    except error as failure:
        raise InvalidRequest(f"the answer to a broker that leaves cannot be read: {failure}") from failure


def _header(api_key: int, correlation_id: int, client_id: str) -> bytes:
    name = client_id.encode()
    return _HEADER.pack(api_key, VERSION, correlation_id, len(name)) + name


def _parse_header(frame: memoryview, expected: int) -> tuple[int, str, int]:
    api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    if api_key != expected or version != VERSION:
        raise InvalidRequest(
            f"a request of API {api_key} version {version} came where version {VERSION} of {expected} was due; "
            "are both processes of the same release?"
        )
    position = _HEADER.size + max(length, 0)
    return correlation_id, str(frame[_HEADER.size : position], "utf-8"), position


def _framed(*parts: bytes | memoryview) -> bytes:
    return b"".join((_SIZE.pack(sum(map(len, parts))), *parts))
