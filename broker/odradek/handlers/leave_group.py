"""LeaveGroup: members leave, or an administrator removes them. From version 3 on a request names many."""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import OdradekError
from odradek.groups.classic.members import Departure
from odradek.handlers.context import RequestContext
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.groups import LeaveGroupRequest
from odradek.transport.pending import Pending, when_ready

API: Final = ApiKey.LEAVE_GROUP


def handle(request: LeaveGroupRequest, context: RequestContext) -> Message | Pending[Message]:
    version = context.header.api_version
    if version >= 3:
        members = [(member.member_id, member.group_instance_id) for member in request.members]
    else:
        members = [(request.member_id, None)]
    try:
        departures = context.broker.groups.leave(request.group_id, members)
    except OdradekError as error:
        return _refusal(version, error)
    return when_ready(
        departures,
        lambda ready: _response(version, ready),
        failed=lambda error: _refusal(version, error),
    )


def _refusal(version: int, error: Exception) -> Message:
    if not isinstance(error, OdradekError):
        raise error
    return response(API, version, error_code=error_code(error))


def _response(version: int, departures: list[Departure]) -> Message:
    if version < 3:
        # Before that version there is one member, and its error is the answer's.
        return response(API, version, error_code=error_code(departures[0].error))
    return response(
        API,
        version,
        members=[
            {
                "member_id": departure.member_id,
                "group_instance_id": departure.instance_id,
                "error_code": error_code(departure.error),
            }
            for departure in departures
        ],
    )
