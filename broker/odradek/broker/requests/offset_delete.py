"""OffsetDelete: delete offsets of a group for topics that none of its members subscribes to."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import partition_codes
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import OffsetDeleteRequest


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
