"""DescribeShareGroupOffsets: where share groups begin to read, and their lag (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from odradek.broker.groups.share.offsets import SharePosition
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ShareGroupParts
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

_UNKNOWN: Final = {"start_offset": -1, "leader_epoch": 0, "lag": -1}


async def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext[ShareGroupParts]
) -> Message:
    return context.response(groups=[await _describe(group, context) for group in request.groups])


async def _describe(
    group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext[ShareGroupParts]
) -> Mapping[str, object]:
    try:
        topics = await _topics(group, context)
    except GroupIdNotFound:
        # As in Kafka: there is nothing that it has read.
        return {"group_id": group.group_id, "topics": []}
    except OdradekError as error:
        return {"group_id": group.group_id, "topics": [], **error_fields(error)}
    return {"group_id": group.group_id, "topics": topics}


async def _topics(
    group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext[ShareGroupParts]
) -> list[Mapping[str, object]]:
    image = context.broker.images.current
    offsets = context.broker.offsets
    known: dict[UUID, frozenset[int]] = {}
    unknown: list[DescribeShareGroupOffsetsRequestTopic] = []
    if group.topics is None:
        kept = offsets.list_partitions(group.group_id)
        known = {topic_id: numbers for topic_id, numbers in kept.items() if topic_id in image.topics_by_id}
    for topic in group.topics or ():
        found = image.topics.get(topic.topic_name)
        if found is None:
            unknown.append(topic)
        else:
            known[found.id] = known.get(found.id, frozenset()) | frozenset(topic.partitions)
    positions = await offsets.describe(group.group_id, known)
    rows: list[Mapping[str, object]] = [
        {
            "topic_id": topic_id,
            "topic_name": image.topics_by_id[topic_id].name,
            "partitions": [_row(number, positions[topic_id, number]) for number in sorted(numbers)],
        }
        for topic_id, numbers in known.items()
    ]
    # As in Kafka, a topic that is not there is one that the group has not read.
    rows += [
        {
            "topic_id": None,
            "topic_name": topic.topic_name,
            "partitions": [
                {"partition_index": number, **_UNKNOWN} for number in sorted(set(topic.partitions))
            ],
        }
        for topic in unknown
    ]
    return rows


def _row(number: int, position: SharePosition | OdradekError) -> Mapping[str, object]:
    if isinstance(position, OdradekError):
        return {"partition_index": number, **_UNKNOWN, **error_fields(position)}
    return {"partition_index": number, **position._asdict()}
