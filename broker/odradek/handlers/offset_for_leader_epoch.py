"""OffsetForLeaderEpoch: where an epoch ended, by which consumers and followers find out that the log was
cut.
"""

from __future__ import annotations

from typing import Any, Final

from odradek.foundation.errors import RequestError
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

VERSIONS: Final = (2, 4)


def handle(request: Any, context: RequestContext) -> Any:
    topics = [
        {
            "topic": topic.topic,
            "partitions": [_answer(topic.topic, asked, context) for asked in topic.partitions],
        }
        for topic in request.topics
    ]
    return messages.response(ApiKey.OFFSET_FOR_LEADER_EPOCH, context.header.api_version, topics=topics)


def _answer(topic: str, asked: Any, context: RequestContext) -> dict[str, Any]:
    try:
        partition = context.broker.partitions.get(topic, asked.partition)
        partition.require_leader(getattr(asked, "current_leader_epoch", -1))
        epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except RequestError as error:
        return {
            "error_code": error_code(error),
            "partition": asked.partition,
            "leader_epoch": -1,
            "end_offset": -1,
        }
    return {"error_code": 0, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end_offset}
