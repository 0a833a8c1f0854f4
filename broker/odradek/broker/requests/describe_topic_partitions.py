"""DescribeTopicPartitions (KIP-966): topics by name, a limited number of partitions at a time, with a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from odradek.broker.requests.authorized_operations import of_topic
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import MANY, has_many, make_in_turns
from odradek.broker.requests.partition_metadata import partition_fields, reachable_brokers
from odradek.broker.requests.parts import MetadataParts
from odradek.foundation.errors import InvalidRequest, InvalidTopic, UnknownTopicOrPartition
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.image.image import ClusterImage
from odradek.metadata.image.topic_names import is_internal_topic, validate_topic_name
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import Cursor, DescribeTopicPartitionsRequest


async def handle(request: DescribeTopicPartitionsRequest, context: RequestContext[MetadataParts]) -> Message:
    image = context.broker.images.current
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(
            f"DescribeTopicPartitionsRequest cursor partition must be valid: it is {cursor.partition_index}"
        )
    is_all = not request.topics
    first_name = "" if cursor is None else cursor.topic_name
    count = len(image.topics if is_all else request.topics)
    names = await make_in_turns(
        context,
        count,
        lambda: sorted(
            {
                name
                for name in (image.topics if is_all else (topic.name for topic in request.topics))
                if name >= first_name
            }
        ),
    )
    limit = max(
        1, min(request.response_partition_limit, context.broker.settings.max_request_partition_size_limit)
    )
    async with Leftovers() as kept:
        kept.until_end(names)
        topics, next_cursor = await _page(context, image, names, cursor=cursor, limit=limit)
        kept.until_end(topics)
        many = has_many(cast("list[object]", topic["partitions"]) for topic in topics)
        return await make_in_turns(
            context,
            MANY if many else len(topics),
            lambda: context.response(topics=iter(topics), next_cursor=next_cursor),
        )


async def _page(
    context: RequestContext[MetadataParts],
    image: ClusterImage,
    names: Sequence[str],
    *,
    cursor: Cursor | None,
    limit: int,
) -> tuple[list[dict[str, object]], dict[str, object] | None]:
    """The topics that fit, and the cursor of the next page; None at the end."""
    live = frozenset(image.brokers)
    reachable = reachable_brokers(image, context.listener_name)
    topics: list[dict[str, object]] = []
    remaining = limit
    turn = Turn()
    for name in names:
        if turn.is_over():
            await turn.next()
        if remaining == 0:
            return topics, {"topic_name": name, "partition_index": 0}
        topic = image.topics.get(name)
        if topic is None:
            topics.append({**_unknown(name), "topic_authorized_operations": of_topic(context, name)})
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        partitions = topic.partitions[first : first + remaining]
        topics.append(
            {
                "error_code": 0,
                "name": name,
                "topic_id": topic.id,
                "is_internal": topic.is_internal,
                "partitions": [
                    {
                        **fields,
                        "eligible_leader_replicas": partition.elr,
                        "last_known_elr": partition.last_known_elr,
                    }
                    for partition, fields in zip(
                        partitions, partition_fields(partitions, live=live, reachable=reachable), strict=True
                    )
                ],
                "topic_authorized_operations": of_topic(context, name),
            }
        )
        remaining -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return topics, {"topic_name": name, "partition_index": first + len(partitions)}
    return topics, None


def _unknown(name: str) -> dict[str, object]:
    code = error_code(UnknownTopicOrPartition())
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        code = error_code(error)
    return {"error_code": code, "name": name, "is_internal": is_internal_topic(name), "partitions": []}
