"""ListGroups: the groups that this broker coordinates, by state (from version 4) and type (from version 5).

One broker lists the groups that share partitions through ZooKeeper, which no broker coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.foundation.errors import OdradekError
from odradek.groups.administration import GroupOverview
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import ListGroupsRequest
from odradek.transport.pending import Pending


def handle(request: ListGroupsRequest, context: RequestContext) -> Message | Pending[Message]:
    states, types = request.states_filter, request.types_filter
    try:
        groups = context.broker.groups.admin.list_groups(states=states, types=types)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    others = context.broker.zookeeper_groups
    if others is None:
        return _answer(groups, context)
    known = {group.group_id for group in groups}

    def respond(found: list[GroupOverview]) -> Message:
        return _answer([*groups, *(group for group in found if group.group_id not in known)], context)

    return Pending(others.list_groups(states=states, types=types)).then(respond)


def _answer(groups: Sequence[GroupOverview], context: RequestContext) -> Message:
    return context.response(
        groups=[
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in groups
        ]
    )
