"""AlterShareGroupOffsets: where a share group without members begins to read."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ShareGroupParts
from odradek.broker.share_states.states import StateErrors
from odradek.foundation.errors import InvalidGroupId, OdradekError, UnknownTopicOrPartition
from odradek.metadata.image.image import TopicImage
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)


async def handle(request: AlterShareGroupOffsetsRequest, context: RequestContext[ShareGroupParts]) -> Message:
    topics = context.broker.images.current.topics
    try:
        if not request.group_id:
            raise InvalidGroupId("the group id must not be empty")
        starts = {
            found.id: {
                one.partition_index: one.start_offset
                for one in topic.partitions
                if 0 <= one.partition_index < len(found.partitions)
            }
            for topic in request.topics
            if (found := topics.get(topic.topic_name)) is not None
        }
        errors = await context.broker.offsets.reset(
            request.group_id, {topic_id: offsets for topic_id, offsets in starts.items() if offsets}
        )
    except OdradekError as error:
        return context.response(**error_fields(error))
    # Those that are not there come first, as in Kafka.
    rows = sorted(request.topics, key=lambda topic: topic.topic_name in topics)
    return context.response(responses=[_topic(topic, topics.get(topic.topic_name), errors) for topic in rows])


def _topic(
    topic: AlterShareGroupOffsetsRequestTopic, found: TopicImage | None, errors: StateErrors
) -> Mapping[str, object]:
    def outcome(number: int) -> Mapping[str, object]:
        if found is None or not 0 <= number < len(found.partitions):
            return error_fields(UnknownTopicOrPartition("This server does not host this topic-partition."))
        return error_fields(errors.get((found.id, number)))

    return {
        "topic_name": topic.topic_name,
        "topic_id": None if found is None else found.id,
        "partitions": [
            {"partition_index": one.partition_index, **outcome(one.partition_index)}
            for one in topic.partitions
        ],
    }
