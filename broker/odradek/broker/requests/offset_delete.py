"""OffsetDelete: delete offsets of a group for topics that none of its members subscribes to.

Partitions that do not exist are answered first, and with any of them a topic stands in the answer once, as in Kafka.
Without them it stands there as often as in the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import partition_codes
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import OffsetDeleteRequest


def handle(
    request: OffsetDeleteRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    try:
        read = context.broker.groups.offsets.unread_subscriptions(request.group_id)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    if read is not None:
        return Pending(_delete_after_reading(request, context, read))
    return _delete_offsets(request, context)


async def _delete_after_reading(
    request: OffsetDeleteRequest, context: RequestContext[ConsumerGroupParts], read: Callable[[], None]
) -> Message:
    """Of a group whose members subscribe to many topics."""
    await context.broker.long_work.submit(read)
    answer = _delete_offsets(request, context)
    return await answer if isinstance(answer, Pending) else answer


def _delete_offsets(
    request: OffsetDeleteRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
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
        return context.response(topics=_describe_topics(request, codes))

    return when_ready(errors, respond)


def _describe_topics(
    request: OffsetDeleteRequest, codes: Mapping[tuple[str, int], int]
) -> list[dict[str, object]]:
    unknown: dict[str, list[dict[str, object]]] = {}
    found: dict[str, list[dict[str, object]]] = {}
    missing = error_code(UnknownTopicOrPartition())
    for topic in request.topics:
        for one in topic.partitions:
            code = codes.get((topic.name, one.partition_index))
            answered = found if code is not None else unknown
            answered.setdefault(topic.name, []).append(
                {"partition_index": one.partition_index, "error_code": missing if code is None else code}
            )
    if not unknown:
        return partition_codes(request.topics, codes, otherwise=missing)
    # Kafka adds what its coordinator answers to what it has refused, whose partitions come last in a topic of both.
    return [
        {"name": name, "partitions": [*found.get(name, ()), *unknown.get(name, ())]}
        for name in {**unknown, **found}
    ]
