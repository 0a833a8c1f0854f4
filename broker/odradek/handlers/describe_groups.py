"""DescribeGroups: classic groups with their members.

Up to version 5 an unknown group is described as Dead, without an error. From version 6 on it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.groups.classic.group import GroupState
from odradek.handlers.authorized_operations import NOT_ASKED, of_group
from odradek.handlers.context import RequestContext
from odradek.protocol import messages
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code, error_message
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import DescribeGroupsRequest

API: Final = ApiKey.DESCRIBE_GROUPS
VERSION_WITH_NOT_FOUND: Final = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> Message:
    is_asked = request.include_authorized_operations
    groups = [
        {
            **_group(group_id, context),
            "authorized_operations": of_group(context, group_id) if is_asked else NOT_ASKED,
        }
        for group_id in request.groups
    ]
    return messages.response(API, context.header.api_version, groups=groups)


def _group(group_id: str, context: RequestContext) -> Mapping[str, object]:
    try:
        group = context.broker.groups.admin.describe(group_id)
    except GroupIdNotFound as error:
        dead = {"group_id": group_id, "group_state": GroupState.DEAD.value}
        if context.header.api_version < VERSION_WITH_NOT_FOUND:
            return dead
        return {**dead, "error_code": error_code(error), "error_message": error_message(error)}
    except OdradekError as error:
        return {"group_id": group_id, "error_code": error_code(error), "error_message": error_message(error)}
    return {
        "group_id": group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }
