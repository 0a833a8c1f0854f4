"""ListGroups: the groups that this broker coordinates, by state (from version 4) and type (from version 5)."""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import OdradekError
from odradek.handlers.context import RequestContext
from odradek.protocol import messages
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import ListGroupsRequest

API: Final = ApiKey.LIST_GROUPS


def handle(request: ListGroupsRequest, context: RequestContext) -> Message:
    version = context.header.api_version
    try:
        groups = context.broker.groups.admin.list_groups(
            states=request.states_filter,
            types=request.types_filter,
        )
    except OdradekError as error:
        return messages.response(API, version, error_code=error_code(error))
    return messages.response(
        API,
        version,
        groups=[
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in groups
        ],
    )
