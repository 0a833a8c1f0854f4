"""LeaveGroup: members go, or an administrator removes them. From version 3 on a request names many."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import OdradekError
from odradek.groups import membership
from odradek.groups.members import Departure
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.LEAVE_GROUP
VERSIONS: Final = (0, 5)


def handle(request: Any, context: RequestContext) -> Any:
    version = context.header.api_version
    if version >= 3:
        members = [(member.member_id, member.group_instance_id) for member in request.members]
    else:
        members = [(request.member_id, None)]
    try:
        departures = membership.leave(context.broker.groups, request.group_id, members)
    except OdradekError as error:
        return messages.response(API, version, error_code=error_code(error))
    if inspect.isawaitable(departures):
        return _later(version, departures)
    return _response(version, departures)


async def _later(version: int, departures: Awaitable[list[Departure]]) -> Any:
    try:
        return _response(version, await departures)
    except OdradekError as error:
        return messages.response(API, version, error_code=error_code(error))


def _response(version: int, departures: list[Departure]) -> Any:
    if version < 3:
        # One member then, and its error is the answer's.
        return messages.response(API, version, error_code=error_code(departures[0].error))
    return messages.response(
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
