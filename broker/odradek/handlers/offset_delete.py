"""OffsetDelete: delete offsets of a group for topics that none of its members subscribes to."""

from __future__ import annotations

from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.handlers.context import RequestContext
from odradek.handlers.failures import partition_codes
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import OffsetDeleteRequest
from odradek.transport.pending import Pending, when_ready


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

    def respond(outcome: list[OdradekError | None]) -> Message:
        codes = {key: error_code(error) for key, error in zip(known, outcome, strict=True)}
        missing = error_code(UnknownTopicOrPartition())
        return context.response(topics=partition_codes(request.topics, codes, otherwise=missing))

    return when_ready(errors, respond)
