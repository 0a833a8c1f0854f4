"""ShareGroupHeartbeat: what a member of a share group sends, and what it receives (KIP-932)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from odradek.broker.groups.share.heartbeats import (
    ShareGroupHeartbeat,
    ShareHeartbeatResult,
    ShareOutcome,
    check_share_heartbeat,
)
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OdradekError, RequestError
from odradek.network.pending import Pending
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import ShareGroupHeartbeatRequest


def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    group_id = request.group_id
    groups = context.broker.groups
    heartbeat = ShareGroupHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
        client_id=context.header.client_id or "",
        client_host=f"/{context.client_host}",
    )

    def respond(ready: ShareOutcome) -> Message:
        if isinstance(ready, OdradekError):
            return context.response(**error_fields(ready))
        return _response(context, group_id, ready)

    try:
        check_share_heartbeat(groups.context, group_id, heartbeat)
    except RequestError as error:
        return respond(without_trace(error))
    outcome = groups.share_heartbeat(group_id, heartbeat)
    return Pending(outcome).then(respond) if isinstance(outcome, Awaitable) else respond(outcome)


def _response(
    context: RequestContext[ConsumerGroupParts], group_id: str, result: ShareHeartbeatResult
) -> Message:
    if result.member_epoch < 0:
        # A member that leaves sends no further heartbeat.
        return context.response(member_id=result.member_id, member_epoch=result.member_epoch)
    interval_ms = context.broker.groups.context.share_value("heartbeat.interval.ms", group_id)
    return context.response(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=interval_ms,
        assignment=None if result.assigned is None else _assignment(result),
    )


def _assignment(result: ShareHeartbeatResult) -> Mapping[str, object]:
    assigned = result.assigned or {}
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(numbers)} for topic_id, numbers in assigned.items()
        ]
    }
