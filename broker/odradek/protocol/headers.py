"""Request and response headers.

    request  v1   api_key int16, api_version int16, correlation_id int32, client_id nullable string
             v2   the same, then tagged fields; client_id keeps its int16 length, although flexible
             v0   the same without client_id: only ControlledShutdown version 0, which none asks today
    response v0   correlation_id int32
             v1   the same, then tagged fields

v2 and v1 go with flexible versions. The answer to ApiVersions always has header v0. A client that asks for a version
unknown to the broker must be able to read it.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, NamedTuple

from odradek.foundation.errors import InvalidRequest
from odradek.protocol.api import API_KEY_MAX, FIRST_FLEXIBLE_VERSION, ApiKey, is_flexible
from odradek.protocol.varint import skip_tagged_fields

_FIXED: Final = Struct(">hhih")
_fixed_at = _FIXED.unpack_from
_FIXED_BYTES: Final = _FIXED.size
_FIXED_WITHOUT_CLIENT_ID_BYTES: Final = 8
_new = tuple.__new__


class RequestHeader(NamedTuple):
    """What precedes every request. `client_id` is empty when the client sent null, as Apache Kafka treats
    it.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_position: int


def parse_request_header(frame: memoryview) -> RequestHeader:
    """The header at the start of `frame`; the body begins at its `body_position`.

    Raises InvalidRequest when the frame ends within the header or the client id is not UTF-8. It also raises it for an
    unknown API, since the header's version depends on the API. A version that does not exist is not an error here.
    """
    try:
        api_key, api_version, correlation_id, client_id_bytes = _fixed_at(frame)
    except struct.error:
        return _parse_without_client_id(frame)
    if not 0 <= api_key <= API_KEY_MAX:
        raise InvalidRequest(
            f"a request names the API {api_key}, which does not exist; the peer may speak another protocol"
        )
    if api_version < 0:
        raise InvalidRequest(f"a request of {ApiKey(api_key).name} names the version {api_version}")
    position = _FIXED_BYTES
    client_id = ""
    if client_id_bytes > 0:
        position += client_id_bytes
        if position > len(frame):
            raise InvalidRequest(
                f"the client id of a request is said to have {client_id_bytes} bytes, but "
                f"{len(frame) - _FIXED_BYTES} follow; the frame was cut off"
            )
        try:
            client_id = str(frame[_FIXED_BYTES:position], "utf-8")
        except UnicodeDecodeError as failure:
            raise InvalidRequest(f"the client id of a request is not UTF-8: {failure}") from failure
    elif client_id_bytes < -1:
        raise InvalidRequest(f"the client id of a request has the length {client_id_bytes}")
    if api_version >= FIRST_FLEXIBLE_VERSION[api_key]:
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            position = skip_tagged_fields(frame, position)
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def _parse_without_client_id(frame: memoryview) -> RequestHeader:
    if len(frame) >= _FIXED_WITHOUT_CLIENT_ID_BYTES:
        api_key, api_version, correlation_id = Struct(">hhi").unpack_from(frame)
        if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, "", _FIXED_WITHOUT_CLIENT_ID_BYTES)
    raise InvalidRequest(f"a frame of {len(frame)} bytes is too short for a request header; it was cut off")


def request_header(*, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The bytes of a request header.

    Raises InvalidRequest when `client_id` has more than 32767 bytes.
    """
    name = b"" if client_id is None else client_id.encode()
    if len(name) > 0x7FFF:
        raise InvalidRequest(f"the client id has {len(name)} bytes, the protocol allows 32767; shorten it")
    length = -1 if client_id is None else len(name)
    tags = b"\0" if is_flexible(api_key, api_version) else b""
    return _FIXED.pack(api_key, api_version, correlation_id, length) + name + tags


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    """Whether the answer's header ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and api_version >= FIRST_FLEXIBLE_VERSION[api_key]


def parse_response_header(frame: memoryview, *, api_key: int, api_version: int) -> tuple[int, int]:
    """(correlation id, position of the body) of the answer in `frame` to a request of this API and version.

    Raises InvalidRequest when the frame ends within the header.
    """
    if len(frame) < 4:
        raise InvalidRequest(f"an answer of {len(frame)} bytes is too short for its header; it was cut off")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if response_header_is_flexible(api_key, api_version):
        return correlation_id, skip_tagged_fields(frame, 4)
    return correlation_id, 4
