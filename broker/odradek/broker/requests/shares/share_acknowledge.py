"""ShareAcknowledge: a member says what became of records that it had acquired. Answered once that is stored."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import SharesParts
from odradek.broker.requests.shares.acknowledgements import (
    MayRead,
    acknowledge,
    check_member,
    everyone_may_read,
)
from odradek.broker.requests.shares.leaders import leaders_of
from odradek.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, Target
from odradek.foundation.errors import InvalidShareSessionEpoch, RequestError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import ShareAcknowledgeRequest


async def handle(request: ShareAcknowledgeRequest, context: RequestContext[SharesParts]) -> Message:
    return await answer_request(request, context)


async def answer_request(
    request: ShareAcknowledgeRequest,
    context: RequestContext[SharesParts],
    *,
    may_read: MayRead = everyone_may_read,
) -> Message:
    try:
        key = check_member(context, request.group_id, request.member_id)
        _advance(context, key, request.share_session_epoch)
        acknowledging = await acknowledge(
            request.topics,
            context,
            key,
            is_renewal=request.is_renew_ack,
            may_read=may_read,
        )
        outcomes = await acknowledging.settle()
        if request.share_session_epoch == FINAL_EPOCH:
            await context.broker.leader.close_session(key)
    except RequestError as error:
        return context.response(**error_fields(error), responses=[], node_endpoints=[])
    return _answer(context, key, outcomes)


def _advance(context: RequestContext[SharesParts], key: SessionKey, epoch: int) -> None:
    sessions = context.broker.leader.sessions
    if epoch == INITIAL_EPOCH:
        raise InvalidShareSessionEpoch("A share session begins with a fetch.")
    if epoch == FINAL_EPOCH:
        sessions.get(key)
    else:
        sessions.advance(key, epoch)


def _answer(
    context: RequestContext[SharesParts], key: SessionKey, outcomes: Mapping[Target, Exception | None]
) -> Message:
    leaders = leaders_of(context, outcomes)
    topics: dict[object, list[dict[str, object]]] = {}
    for (topic_id, index), failure in outcomes.items():
        leader_id, leader_epoch = leaders.by_partition.get((topic_id.bytes, index), (0, 0))
        topics.setdefault(topic_id, []).append(
            {
                "partition_index": index,
                **error_fields(failure),
                "current_leader": {"leader_id": leader_id, "leader_epoch": leader_epoch},
            }
        )
    fields: dict[str, object] = {}
    if context.header.api_version >= 2:
        fields["acquisition_lock_timeout"] = context.broker.leader.rules(key.group_id).lock_ms
    return context.response(
        error_code=0,
        responses=[{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()],
        node_endpoints=[
            {"node_id": node_id, "host": host, "port": port, "rack": rack}
            for node_id, host, port, rack in leaders.nodes
        ],
        **fields,
    )
