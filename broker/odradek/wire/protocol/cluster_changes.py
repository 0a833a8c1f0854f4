"""Requests by which a broker follows the active controller: our own API, spoken only between our own processes.

The rows below are the layout; `own_requests` has the header. "I have applied everything below `number` of the term
`controller_epoch`" is answered with what came after, once there is anything or `wait_ms_max` has passed.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow
from odradek.wire.protocol.own_requests import OwnStructure

API_KEY: Final = 1000


class FollowResponseNode(NamedTuple):
    """A node of the registry; without `data` it is gone."""

    path: str
    data: bytes | None
    version: int


class FollowRequest(NamedTuple):
    """The changes that a broker has applied, and the time that it would wait for more."""

    correlation_id: int
    client_id: str
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    number: int
    wait_ms_max: int


class FollowResponse(NamedTuple):
    """The changes that the broker lacks; with an `error_code` other than 0 there is nothing else in it."""

    correlation_id: int
    error_code: int = 0
    controller_epoch: int = -1
    next_number: int = 0
    is_snapshot: bool = False
    is_complete: bool = True
    nodes: tuple[FollowResponseNode, ...] = ()


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
    FieldRow("controller_epoch", "int32"),
    FieldRow("next_number", "int64"),
    FieldRow("is_snapshot", "bool"),
    FieldRow("is_complete", "bool"),
    FieldRow(
        "nodes",
        structure=Declaration(
            FollowResponseNode,
            FieldRow("path", "string"),
            FieldRow("version", "int32"),
            FieldRow("data", "bytes", is_nullable=True),
        ),
        is_array=True,
    ),
    what="an answer to a follower",
)

pack_request, parse_request = _REQUEST.pack, _REQUEST.parse
pack_response, parse_response = _RESPONSE.pack, _RESPONSE.parse
