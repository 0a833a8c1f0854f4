"""DescribeGroups: classic groups with their members, and groups that share partitions through ZooKeeper.

Up to version 5 an unknown group is described as Dead, without an error. From version 6 on it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.groups.administration import GroupSummary
from odradek.broker.groups.classic.group import GroupState
from odradek.broker.requests.authorized_operations import of_group
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.network.pending import Pending
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import DescribeGroupsRequest

VERSION_WITH_NOT_FOUND: Final = 6

Found = dict[str, GroupSummary | OdradekError]


def handle(
    request: DescribeGroupsRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    found = {group_id: _describe_group(group_id, context) for group_id in request.groups}
    missing = [group_id for group_id, group in found.items() if isinstance(group, GroupIdNotFound)]
    others = context.broker.zookeeper_groups
    if not missing or others is None:
        return _answer(request, found, context)

    async def with_others() -> Message:
        for group_id in missing:
            try:
                found[group_id] = await others.describe(group_id)
            except OdradekError as error:
                found[group_id] = without_trace(error)
        return _answer(request, found, context)

    return Pending(with_others())


def _answer(
    request: DescribeGroupsRequest, found: Found, context: RequestContext[ConsumerGroupParts]
) -> Message:
    is_asked = request.include_authorized_operations
    groups = [
        {
            **_group(group_id, found[group_id], context),
            "authorized_operations": of_group(context, group_id, is_asked=is_asked),
        }
        for group_id in request.groups
    ]
    return context.response(groups=groups)


def _describe_group(
    group_id: str, context: RequestContext[ConsumerGroupParts]
) -> GroupSummary | OdradekError:
    try:
        return context.broker.groups.admin.describe(group_id)
    except OdradekError as error:
        return without_trace(error)


def _group(
    group_id: str, group: GroupSummary | OdradekError, context: RequestContext[ConsumerGroupParts]
) -> Mapping[str, object]:
    if isinstance(group, OdradekError):
        refused = {"group_id": group_id, **error_fields(group)}
        if not isinstance(group, GroupIdNotFound):
            return refused
        dead = {"group_id": group_id, "group_state": GroupState.DEAD.value}
        return dead if context.header.api_version < VERSION_WITH_NOT_FOUND else {**refused, **dead}
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
