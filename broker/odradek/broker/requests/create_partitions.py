"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.mutations import quota_of
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.requests import NewPartitions, Outcome
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import CreatePartitionsRequest, CreatePartitionsTopic


async def handle(request: CreatePartitionsRequest, context: RequestContext[AdminParts]) -> Message:
    async with Leftovers() as kept:
        counts: dict[str, int] = kept.until_end({})
        outcomes: dict[str, Outcome] = kept.until_end({})
        wanted: list[NewPartitions] = kept.until_end([])
        turn = Turn()
        for topic in request.topics:
            if turn.is_over():
                await turn.next()
            counts[topic.name] = counts.get(topic.name, 0) + 1
        for topic in request.topics:
            if turn.is_over(1 + len(topic.assignments or ())):
                await turn.next()
            if counts[topic.name] == 1:
                wanted.append(_read_topic(topic))
            else:
                outcomes[topic.name] = InvalidRequest(
                    f"Duplicate topic name: {topic.name!r} is in the request more than once."
                )
        quota = quota_of(context.broker.mutations, context.principal, context.header)
        grown = kept.until_end(
            await context.broker.active_controller.create_partitions(
                wanted, validate_only=request.validate_only, spend=quota.spend
            )
        )
        for new, outcome in zip(wanted, grown, strict=True):
            if turn.is_over():
                await turn.next()
            outcomes[new.topic] = outcome
            if outcome is None and not request.validate_only:
                change_log.log_added_partitions(context, new.topic, partitions=new.total_count)
        return await make_in_turns(
            context,
            len(counts),
            lambda: context.response(
                results=({"name": name, **error_fields(outcomes[name])} for name in counts),
                throttle_time=quota.throttle_ms,
            ),
        )


def _read_topic(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None if topic.assignments is None else [given.broker_ids for given in topic.assignments]
    return NewPartitions(topic=topic.name, total_count=topic.count, assignments=assignments)
