"""DeleteShareGroupOffsets: forget what a share group without members has read of topics."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ShareGroupParts
from odradek.foundation.errors import InvalidGroupId, OdradekError, UnknownTopicOrPartition
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import DeleteShareGroupOffsetsRequest


async def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext[ShareGroupParts]
) -> Message:
    topics = context.broker.images.current.topics
    names = [topic.topic_name for topic in request.topics]
    ids = {name: topics[name].id for name in names if name in topics}
    try:
        if not request.group_id:
            raise InvalidGroupId("the group id must not be empty")
        errors = await context.broker.offsets.delete(request.group_id, list(ids.values()))
    except OdradekError as error:
        return context.response(**error_fields(error))

    def outcome(name: str) -> OdradekError | None:
        if name not in ids:
            return UnknownTopicOrPartition("This server does not host this topic-partition.")
        return errors.get(ids[name])

    def row(name: str) -> Mapping[str, object]:
        error = outcome(name)
        is_known = not isinstance(error, UnknownTopicOrPartition)
        return {
            "topic_name": name,
            "topic_id": ids.get(name) if is_known else None,
            **error_fields(error),
        }

    return context.response(responses=[row(name) for name in names])
