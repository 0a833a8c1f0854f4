"""ConsumerGroupHeartbeat: what a member of a consumer group sends, and what it receives (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, cast

from odradek.broker.groups.consumer.requests import ConsumerGroupHeartbeat, Outcome
from odradek.broker.groups.consumer.update import OwnedTopic, as_assignment
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.network.pending import Pending
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.groups import ConsumerGroupHeartbeatRequest

# From this version on consumers make their member ids, and may subscribe to patterns.
VERSION_WITH_OWN_IDS: Final = 1


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    owned = sum(1 + len(topic.partitions) for topic in request.topic_partitions or ())
    if owned > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_answer_many(request, context, owned))
    return _answer_heartbeat(request, context, _heartbeat(request, context))


async def _answer_many(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext[ConsumerGroupParts], owned: int
) -> Message:
    """With many partitions that the member owns: the thread reads them."""
    heartbeat = await make_in_turns(context, owned, lambda: _heartbeat(request, context))
    answer = _answer_heartbeat(request, context, heartbeat)
    return await answer if isinstance(answer, Pending) else answer


def _answer_heartbeat(
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext[ConsumerGroupParts],
    heartbeat: ConsumerGroupHeartbeat,
) -> Message | Pending[Message]:
    outcome = context.broker.groups.consumer_heartbeat(request.group_id, heartbeat)
    group_id: str = request.group_id

    def respond(ready: Outcome) -> Message:
        return _response(context, group_id, ready)

    return Pending(outcome).then(respond) if isinstance(outcome, Awaitable) else respond(outcome)


def _heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext[ConsumerGroupParts]
) -> ConsumerGroupHeartbeat:
    names = request.subscribed_topic_names
    return ConsumerGroupHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else tuple(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        # The zero id is None here, which is the id of no topic.
        owned=as_assignment(cast("Sequence[OwnedTopic] | None", request.topic_partitions)),
        client_id=context.header.client_id or "",
        client_host=f"/{context.client_host}",
        requires_member_id=context.header.api_version >= VERSION_WITH_OWN_IDS,
    )


def _response(context: RequestContext[ConsumerGroupParts], group_id: str, outcome: Outcome) -> Message:
    if isinstance(outcome, OdradekError):
        return context.response(**error_fields(outcome))
    assignment = None
    if outcome.assigned is not None:
        partitions = [
            {"topic_id": topic_id, "partitions": sorted(indexes)}
            for topic_id, indexes in outcome.assigned.items()
        ]
        assignment = {"topic_partitions": partitions}
    # A member that leaves sends no further heartbeat.
    is_leaving = outcome.member_epoch < 0
    interval_ms = 0 if is_leaving else context.broker.groups.context.heartbeat_interval_ms(group_id)
    return context.response(
        member_id=outcome.member_id,
        member_epoch=outcome.member_epoch,
        heartbeat_interval=interval_ms,
        assignment=assignment,
    )
