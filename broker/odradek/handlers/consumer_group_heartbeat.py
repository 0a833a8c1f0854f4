"""ConsumerGroupHeartbeat: all that a member of a consumer group says, and all that it is told (KIP-848)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import OdradekError
from odradek.groups import consumer_requests
from odradek.groups.consumer_draft import as_assignment
from odradek.groups.consumer_requests import HeartbeatRequest, Outcome
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code, error_message
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS: Final = (0, 1)

# From this version on consumers make their member ids, and may subscribe to patterns.
VERSION_WITH_OWN_IDS: Final = 1


def handle(request: Any, context: RequestContext) -> Any:
    outcome = consumer_requests.heartbeat(
        context.broker.groups, request.group_id, _heartbeat(request, context)
    )
    if inspect.isawaitable(outcome):
        return _later(context, request.group_id, outcome)
    return _response(context, request.group_id, outcome)


async def _later(context: RequestContext, group_id: str, outcome: Awaitable[Outcome]) -> Any:
    return _response(context, group_id, await outcome)


def _heartbeat(request: Any, context: RequestContext) -> HeartbeatRequest:
    names = request.subscribed_topic_names
    return HeartbeatRequest(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=messages.milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else tuple(names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        server_assignor=request.server_assignor,
        owned=as_assignment(request.topic_partitions),
        client_id=context.header.client_id or "",
        client_host=f"/{context.client_host}",
        requires_member_id=context.header.api_version >= VERSION_WITH_OWN_IDS,
    )


def _response(context: RequestContext, group_id: str, outcome: Outcome) -> Any:
    version = context.header.api_version
    if isinstance(outcome, OdradekError):
        return messages.response(
            API, version, error_code=error_code(outcome), error_message=error_message(outcome)
        )
    assignment = None
    if outcome.assigned is not None:
        partitions = [
            {"topic_id": topic_id, "partitions": sorted(indexes)}
            for topic_id, indexes in outcome.assigned.items()
        ]
        assignment = {"topic_partitions": partitions}
    # Who leaves need not come again.
    is_leaving = outcome.member_epoch < 0
    interval_ms = 0 if is_leaving else context.broker.groups.heartbeat_interval_ms(group_id)
    return messages.response(
        API,
        version,
        member_id=outcome.member_id,
        member_epoch=outcome.member_epoch,
        heartbeat_interval=interval_ms,
        assignment=assignment,
    )
