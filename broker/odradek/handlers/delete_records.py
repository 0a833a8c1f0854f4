"""DeleteRecords: move the start of a log up, so that what lies below is gone for readers at once."""

from __future__ import annotations

from typing import Any, Final

from odradek.cluster.topic_names import is_internal_topic
from odradek.foundation.errors import InvalidTopic, RequestError
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

VERSIONS: Final = (0, 2)


def handle(request: Any, context: RequestContext) -> Any:
    topics = [
        {
            "name": topic.name,
            "partitions": [_answer(topic.name, asked, context) for asked in topic.partitions],
        }
        for topic in request.topics
    ]
    return messages.response(ApiKey.DELETE_RECORDS, context.header.api_version, topics=topics)


def _answer(topic: str, asked: Any, context: RequestContext) -> dict[str, Any]:
    try:
        if is_internal_topic(topic):
            raise InvalidTopic(f"Records of the internal topic {topic} cannot be deleted.")
        start = context.broker.partitions.get(topic, asked.partition_index).delete_records(asked.offset)
    except RequestError as error:
        return {
            "partition_index": asked.partition_index,
            "low_watermark": -1,
            "error_code": error_code(error),
        }
    return {"partition_index": asked.partition_index, "low_watermark": start, "error_code": 0}
