"""LeaveGroup: members leave, or an administrator removes them. From version 3 on a request names many."""

from __future__ import annotations

from odradek.broker.groups.classic.members import Departure
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import LeaveGroupRequest


def handle(
    request: LeaveGroupRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    version = context.header.api_version
    if version >= 3:
        members = [(member.member_id, member.group_instance_id) for member in request.members]
    else:
        members = [(request.member_id, None)]
    try:
        departures = context.broker.groups.leave(request.group_id, members)
    except OdradekError as error:
        return _refusal(context, error)
    return when_ready(
        departures, lambda ready: _response(context, ready), failed=lambda error: _refusal(context, error)
    )


def _refusal(context: RequestContext[ConsumerGroupParts], error: Exception) -> Message:
    if not isinstance(error, OdradekError):
        raise error
    return context.response(error_code=error_code(error))


def _response(context: RequestContext[ConsumerGroupParts], departures: list[Departure]) -> Message:
    if context.header.api_version < 3:
        # Before that version there is one member, and its error is the answer's.
        return context.response(error_code=error_code(departures[0].error))
    return context.response(
        members=[
            {
                "member_id": departure.member_id,
                "group_instance_id": departure.instance_id,
                "error_code": error_code(departure.error),
            }
            for departure in departures
        ]
    )
