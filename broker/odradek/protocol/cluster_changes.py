"""How a broker follows the active controller: our own API, spoken only between our own processes.

The rows below are the layout; `own_requests` has the header. "I have applied everything below `number` of the term
`controller_epoch`" is answered with what came after, once there is anything or `wait_ms_max` has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.protocol.declared import Declaration, FieldRow
from odradek.protocol.own_requests import OwnStructure

API_KEY: Final = 1000

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


class _Node(NamedTuple):
    path: str
    data: bytes | None
    version: int


_REQUEST: Final = OwnStructure(
    FollowRequest,
    FieldRow("broker_id", "int32"),
    FieldRow("broker_epoch", "int64"),
    FieldRow("controller_epoch", "int32"),
    FieldRow("number", "int64"),
    FieldRow("wait_ms_max", "int32"),
    what="a request to follow the cluster",
    api_key=API_KEY,
)
_RESPONSE: Final = OwnStructure(
    FollowResponse,
    FieldRow("correlation_id", "int32"),
    FieldRow("error_code", "int16"),
    FieldRow("controller_epoch", "int32"),
    FieldRow("next_number", "int64"),
    FieldRow("is_snapshot", "bool"),
    FieldRow("is_complete", "bool"),
    FieldRow(
        "nodes",
        structure=Declaration(
            _Node,
            FieldRow("path", "string"),
            FieldRow("version", "int32"),
            FieldRow("data", "bytes", is_nullable=True),
        ),
        is_array=True,
    ),
    what="an answer to a follower",
)


def pack_request(request: FollowRequest) -> bytes:
    """A whole frame, its size included."""
    return _REQUEST.pack(request)


def parse_request(frame: memoryview) -> FollowRequest:
    """The request in a frame without its size. Raises InvalidRequest."""
    request: FollowRequest = _REQUEST.parse(frame)
    return request


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
    named = tuple(_Node(*node) for node in nodes)
    return _RESPONSE.pack(
        FollowResponse(
            correlation_id, error_code, controller_epoch, next_number, is_snapshot, is_complete, named
        )
    )


def parse_response(frame: memoryview) -> FollowResponse:
    """The answer in a frame without its size. Raises InvalidRequest."""
    response: FollowResponse = _RESPONSE.parse(frame)
    return response
