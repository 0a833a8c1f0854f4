"""OffsetDelete: positions of a group are forgotten, where its members do not read the topic."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.groups import positions
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.OFFSET_DELETE
VERSIONS: Final = (0, 0)

Partitions = list[tuple[str, int]]


def handle(request: Any, context: RequestContext) -> Any:
    topics = context.broker.images.current.topics
    known = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name in topics
        for partition in topic.partitions
        if 0 <= partition.partition_index < len(topics[topic.name].partitions)
    ]
    try:
        errors = positions.delete(context.broker.groups, request.group_id, known)
    except OdradekError as error:
        return messages.response(API, 0, error_code=error_code(error))
    if inspect.isawaitable(errors):
        return _later(request, known, errors)
    return _response(request, known, errors)


async def _later(request: Any, known: Partitions, errors: Awaitable[list[OdradekError | None]]) -> Any:
    return _response(request, known, await errors)


def _response(request: Any, known: Partitions, errors: list[OdradekError | None]) -> Any:
    codes = {key: error_code(error) for key, error in zip(known, errors, strict=True)}
    unknown = error_code(UnknownTopicOrPartition())
    return messages.response(
        API,
        0,
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
        ],
    )
