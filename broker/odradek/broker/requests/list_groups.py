"""ListGroups: the groups that this broker coordinates, by state (from version 4) and type (from version 5).

One broker lists the groups that share partitions through ZooKeeper, which no broker coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.broker.groups.administration import GroupOverview
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import ListGroupsRequest

# Kafka's states and types of groups.
_KNOWN_NAMES: Final = frozenset(
    (
        *("unknown", "preparingrebalance", "completingrebalance", "stable", "dead", "empty", "assigning"),
        *("reconciling", "notready", "consumer", "classic", "share", "streams"),
    )
)
_NAMES_LOOKED_AT: Final = 100


def handle(
    request: ListGroupsRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    if len(request.states_filter) + len(request.types_filter) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_list_by_many(request, context))
    return _list_groups(request.states_filter, request.types_filter, context)


async def _list_by_many(request: ListGroupsRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    """With filters of many names, nearly all of which name no state and no type."""

    def small_ones(names: Iterable[str]) -> list[str]:
        # One that names nothing stands for all others of its kind.
        found: dict[str, None] = {}
        for name in names:
            if len(found) < _NAMES_LOOKED_AT or name.lower() in _KNOWN_NAMES:
                found[name] = None
        return list(found)

    states, types = await context.broker.long_work.submit(
        lambda: (small_ones(request.states_filter), small_ones(request.types_filter))
    )
    answer = _list_groups(states, types, context)
    return await answer if isinstance(answer, Pending) else answer


def _list_groups(
    states: Sequence[str], types: Sequence[str], context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
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


def _answer(groups: Sequence[GroupOverview], context: RequestContext[ConsumerGroupParts]) -> Message:
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
