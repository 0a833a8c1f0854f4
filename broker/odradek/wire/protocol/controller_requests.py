"""Our own requests of brokers to the active controller, besides Kafka's APIs: spoken only between our processes.

    Forward (1001)   a client's request as it came, to be answered by the controller's handlers
    Leave (1002)     a broker that wants to stop; what it leads is moved to others first
    Forward (1003)   as 1001, for a client that has logged in: with its principal

The rows below are the layout; `own_requests` has the header. Frames of clients are without their size, answers to them
with it. `next_number` of the term `controller_epoch` is the end of the change log when the answer was made. A broker
that has applied that much shows its clients the outcome of their request. How changes themselves reach the brokers is
`cluster_changes`.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import FieldRow
from odradek.wire.protocol.own_requests import OwnStructure, api_key_of

FORWARD: Final = 1001
LEAVE: Final = 1002
FORWARD_AS: Final = 1003


class ForwardRequest(NamedTuple):
    """A client's frame, without its size, where the client is and as whom; no `principal` for a broker's own."""

    correlation_id: int
    client_id: str
    client_host: str
    principal: str
    frame: bytes | memoryview


class ForwardResponse(NamedTuple):
    """The answer's frame, its size included; empty with an `error_code` other than 0."""

    correlation_id: int
    error_code: int = 0
    controller_epoch: int = -1
    next_number: int = 0
    frame: bytes = b""


class LeaveRequest(NamedTuple):
    """The broker that wants to stop, and which of its registrations."""

    correlation_id: int
    client_id: str
    broker_id: int
    broker_epoch: int


class LeaveResponse(NamedTuple):
    """The number of partitions that the broker still leads, for want of another replica in sync."""

    correlation_id: int
    error_code: int = 0
    left: int = 0


def _anonymous(
    correlation_id: int, client_id: str, client_host: str, frame: bytes | memoryview
) -> ForwardRequest:
    """A request without a principal: of a client without a login, or, without an address, of the broker itself."""
    return ForwardRequest(correlation_id, client_id, client_host, ANONYMOUS if client_host else "", frame)


_FORWARD: Final = OwnStructure(
    _anonymous,
    FieldRow("client_host", "string"),
    FieldRow("frame", "bytes"),
    what="a forwarded request",
    api_key=FORWARD,
)
_FORWARD_AS: Final = OwnStructure(
    ForwardRequest,
    FieldRow("client_host", "string"),
    FieldRow("principal", "string"),
    FieldRow("frame", "bytes"),
    what="a forwarded request",
    api_key=FORWARD_AS,
)
_FORWARDED: Final = OwnStructure(
    ForwardResponse,
    FieldRow("controller_epoch", "int32"),
    FieldRow("next_number", "int64"),
    FieldRow("frame", "bytes"),
    what="the answer to a forwarded request",
)
_LEAVE: Final = OwnStructure(
    LeaveRequest,
    FieldRow("broker_id", "int32"),
    FieldRow("broker_epoch", "int64"),
    what="a broker's wish to leave",
    api_key=LEAVE,
)
_LEFT: Final = OwnStructure(
    LeaveResponse, FieldRow("left", "int32"), what="the answer to a broker that leaves"
)


def pack_forward(
    frame: bytes | memoryview, *, correlation_id: int, client_id: str, client_host: str, principal: str = ""
) -> bytes:
    """A whole frame, its size included; `frame` is without."""
    structure = _FORWARD if principal in ("", ANONYMOUS) else _FORWARD_AS
    return structure.pack(ForwardRequest(correlation_id, client_id, client_host, principal, frame))


def parse_forward(frame: memoryview) -> ForwardRequest:
    """Raises InvalidRequest."""
    structure = _FORWARD_AS if api_key_of(frame) == FORWARD_AS else _FORWARD
    return structure.parse(frame)


pack_forwarded, parse_forwarded = _FORWARDED.pack, _FORWARDED.parse
pack_leave, parse_leave = _LEAVE.pack, _LEAVE.parse
pack_left, parse_left = _LEFT.pack, _LEFT.parse
