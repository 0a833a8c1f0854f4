"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from collections import Counter
from typing import Final

from odradek.controller.requests import NewPartitions, Outcome
from odradek.foundation.errors import InvalidRequest
from odradek.handlers import change_log
from odradek.handlers.context import RequestContext
from odradek.handlers.mutations import quota_of
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code, error_message
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.cluster import CreatePartitionsRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.CREATE_PARTITIONS


def handle(request: CreatePartitionsRequest, context: RequestContext) -> Pending[Message]:
    return Pending(_create(request, context))


async def _create(request: CreatePartitionsRequest, context: RequestContext) -> Message:
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
    quota = quota_of(context)
    made = await context.broker.active_controller.create_partitions(
        wanted, validate_only=request.validate_only, spend=quota.spend
    )
    if not request.validate_only:
        for new, outcome in zip(wanted, made, strict=True):
            if outcome is None:
                change_log.partitions_added(context, new.topic, partitions=new.total_count)
    outcomes |= {new.topic: outcome for new, outcome in zip(wanted, made, strict=True)}
    results = [
        {
            "name": name,
            "error_code": error_code(outcomes[name]),
            "error_message": error_message(outcomes[name]),
        }
        for name in counts
    ]
    return response(API, context.header.api_version, results=results, throttle_time=quota.throttle_ms)
