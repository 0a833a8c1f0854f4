"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from collections import Counter

from odradek.controller.requests import NewPartitions, Outcome
from odradek.foundation.errors import InvalidRequest
from odradek.handlers import change_log
from odradek.handlers.context import RequestContext
from odradek.handlers.failures import error_fields
from odradek.handlers.mutations import quota_of
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import CreatePartitionsRequest


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> Message:
    counts = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, Outcome] = {
        name: InvalidRequest(f"Duplicate topic name: {name!r} is in the request more than once.")
        for name, count in counts.items()
        if count > 1
    }
    wanted = [
        NewPartitions(
            topic=topic.name,
            total_count=topic.count,
            assignments=(
                None if topic.assignments is None else [given.broker_ids for given in topic.assignments]
            ),
        )
        for topic in request.topics
        if counts[topic.name] == 1
    ]
    quota = quota_of(context.broker.mutations, context.principal, context.header)
    made = await context.broker.active_controller.create_partitions(
        wanted, validate_only=request.validate_only, spend=quota.spend
    )
    if not request.validate_only:
        for new, outcome in zip(wanted, made, strict=True):
            if outcome is None:
                change_log.partitions_added(context, new.topic, partitions=new.total_count)
    outcomes |= {new.topic: outcome for new, outcome in zip(wanted, made, strict=True)}
    results = [{"name": name, **error_fields(outcomes[name])} for name in counts]
    return context.response(results=results, throttle_time=quota.throttle_ms)
