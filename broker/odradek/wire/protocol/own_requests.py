"""Requests of our own APIs, between our own processes: frames of structures that are declared as rows.

    frame     size int32, then the structure
    request   api_key int16, api_version int16, correlation_id int32, client_id string, then its own fields
    response  correlation_id int32, error_code int16, then its own fields

Integers are big-endian; strings have a length int16, bytes and arrays a length int32. Kafka's API numbers are far below
1000, where ours begin, so that neither is taken for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Final, Generic, TypeVar

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.declared import Declaration, FieldRow
from odradek.wire.protocol.reading import structure_reader
from odradek.wire.protocol.writing import structure_writer

VERSION: Final = 0

Value = TypeVar("Value")

_CORRELATION_ID: Final = FieldRow("correlation_id", "int32")
_REQUEST_HEADER: Final = (_CORRELATION_ID, FieldRow("client_id", "string"))
_RESPONSE_HEADER: Final = (_CORRELATION_ID, FieldRow("error_code", "int16"))
_API_AND_VERSION: Final = Struct(">hh")
_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = 4


class OwnStructure(Generic[Value]):
    """A request or response, to a frame and back. `what` names it in errors."""

    def __init__(
        self, make: Callable[..., Value], *rows: FieldRow, what: str, api_key: int | None = None
    ) -> None:
        """With `api_key` it is a request. Its header, or a response's, comes before `rows`."""
        self._what = what
        self._api_key = api_key
        header = _RESPONSE_HEADER if api_key is None else _REQUEST_HEADER
        declared = Declaration(make, *header, *rows).at(VERSION, is_flexible=False)
        self._read = structure_reader(declared)
        self._write = structure_writer(declared)

    def pack(self, value: Value) -> bytes:
        """A whole frame, its size included; the fields are the attributes of `value`."""
        out = bytearray(_SIZE_BYTES)
        if self._api_key is not None:
            out += _API_AND_VERSION.pack(self._api_key, VERSION)
        self._write(out, value)
        _SIZE.pack_into(out, 0, len(out) - _SIZE_BYTES)
        return bytes(out)

    def parse(self, frame: memoryview) -> Value:
        """The value in a frame without its size. Raises InvalidRequest, also for bytes that are left over."""
        try:
            position = 0
            if self._api_key is not None:
                self._check_api(*_API_AND_VERSION.unpack_from(frame))
                position = _API_AND_VERSION.size
            value: Value
            value, end = self._read(frame, position, [len(frame)])
        except (error, InvalidRequest) as failure:
            raise InvalidRequest(f"{self._what} cannot be read: {failure}") from failure
        if end != len(frame):
            raise InvalidRequest(f"{self._what} cannot be read: {len(frame) - end} bytes follow its end")
        return value

    def _check_api(self, api_key: int, version: int) -> None:
        if (api_key, version) != (self._api_key, VERSION):
            raise InvalidRequest(
                f"API {api_key} version {version} came where version {VERSION} of {self._api_key} was due; "
                "are both processes of the same release?"
            )


def api_key_of(frame: memoryview) -> int:
    """The number of the API of a frame without its size; -1 for a frame too short to have one."""
    return int.from_bytes(frame[:2], "big", signed=True) if len(frame) >= 2 else -1
