"""SyncGroup: a member gets its assignment; the leader sends those of all members."""

from __future__ import annotations

from typing import Final

from odradek.broker.groups.classic.members import SyncRequest, SyncResult
from odradek.broker.requests.context import RequestContext
from odradek.foundation.errors import InconsistentGroupProtocol
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import SyncGroupRequest

# From this version on the protocol must be named (KIP-559).
VERSION_WITH_PROTOCOL: Final = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> Message | Pending[Message]:
    protocol_type = request.protocol_type
    protocol = request.protocol_name
    if context.header.api_version >= VERSION_WITH_PROTOCOL and (protocol_type is None or protocol is None):
        error = InconsistentGroupProtocol("the protocol's type and name must be given")
        return _response(context, SyncResult(error=error))
    sync = SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=protocol_type,
        protocol=protocol,
        assignments={item.member_id: bytes(item.assignment) for item in request.assignments},
    )
    result = context.broker.groups.sync(request.group_id, sync)
    return when_ready(result, lambda synced: _response(context, synced))


def _response(context: RequestContext, result: SyncResult) -> Message:
    return context.response(
        error_code=error_code(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
