"""OffsetDelete: delete offsets of a group for topics that none of its members subscribes to."""

from __future__ import annotations

from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import OffsetDeleteRequest
from odradek.transport.pending import Pending, when_ready

Partitions = list[tuple[str, int]]


def handle(request: OffsetDeleteRequest, context: RequestContext) -> Message | Pending[Message]:
    topics = context.broker.images.current.topics
    known = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name in topics
        for partition in topic.partitions
        if 0 <= partition.partition_index < len(topics[topic.name].partitions)
    ]
    try:
        errors = context.broker.groups.offsets.delete(request.group_id, known)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    return when_ready(errors, lambda outcome: _response(request, context, known, outcome))


def _response(
    request: OffsetDeleteRequest,
    context: RequestContext,
    known: Partitions,
    errors: list[OdradekError | None],
) -> Message:
    codes = {key: error_code(error) for key, error in zip(known, errors, strict=True)}
    unknown = error_code(UnknownTopicOrPartition())
    return context.response(
        topics=[
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": codes.get((topic.name, partition.partition_index), unknown),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    )
