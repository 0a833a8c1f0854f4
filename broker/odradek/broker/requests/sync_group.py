"""SyncGroup: a member gets its assignment; the leader sends those of all members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.groups.classic.members import SyncRequest, SyncResult
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import InconsistentGroupProtocol
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import SyncGroupRequest

# From this version on the protocol must be named (KIP-559).
VERSION_WITH_PROTOCOL: Final = 5


def handle(
    request: SyncGroupRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    if len(request.assignments) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_sync_many(request, context))
    return _sync_group(request, context, _assignments(request))


async def _sync_many(request: SyncGroupRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    """Of a leader with many assignments: the thread reads them, and the group those of its members."""
    assignments = await make_in_turns(context, len(request.assignments), lambda: _assignments(request))
    answer = _sync_group(request, context, assignments)
    return await answer if isinstance(answer, Pending) else answer


def _assignments(request: SyncGroupRequest) -> dict[str, bytes]:
    return {item.member_id: bytes(item.assignment) for item in request.assignments}


def _sync_group(
    request: SyncGroupRequest, context: RequestContext[ConsumerGroupParts], assignments: Mapping[str, bytes]
) -> Message | Pending[Message]:
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
        assignments=assignments,
    )
    result = context.broker.groups.sync(request.group_id, sync)
    return when_ready(result, lambda synced: _response(context, synced))


def _response(context: RequestContext[ConsumerGroupParts], result: SyncResult) -> Message:
    return context.response(
        error_code=error_code(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
