"""DescribeLogDirs: what each log directory holds, and how full its volume is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import MANY, has_many, make_in_turns
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turn_limits import LOGS_LOOKED_AT_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.metadata.image.cordons import EVERY_DIRECTORY, find_cordoned_directories
from odradek.storage.directories.log_manager import DirectoryDescription, LogManager
from odradek.storage.log_copy import LogCopy
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DescribeLogDirsRequest


async def handle(request: DescribeLogDirsRequest, context: RequestContext[PartitionParts]) -> Message:
    directories = await _describe_directories(context.broker.log_manager)
    copies = list(context.broker.log_manager.moves.under_way.values())
    is_long = request.topics is not None and has_many(topic.partitions for topic in request.topics)
    count = len(copies) + sum(len(directory.log_bytes) for directory in directories)
    return await make_in_turns(
        context, MANY if is_long else count, lambda: _answers(request, context, directories, copies)
    )


async def _describe_directories(logs: LogManager) -> list[DirectoryDescription]:
    """The directories, with the logs of which some are looked at in each turn of the loop."""
    turn = Turn(LOGS_LOOKED_AT_PER_TURN_MAX)
    log_bytes: dict[str, dict[TopicPartition, int]] = {}
    for log in logs.logs():
        if turn.is_over():
            await turn.next()
        log_bytes.setdefault(log.parent_directory, {})[log.topic_partition] = log.size_bytes
    return logs.directories.describe(log_bytes)


def _answers(
    request: DescribeLogDirsRequest,
    context: RequestContext[PartitionParts],
    directories: Iterable[DirectoryDescription],
    copies: Sequence[LogCopy],
) -> Message:
    asked: set[TopicPartition] | None = None
    if request.topics is not None:
        asked = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cordoned = find_cordoned_directories(context.broker.images.current, context.broker.node_id)
    results = [
        {
            **_answer(directory, asked, copies),
            "is_cordoned": directory.failure is None
            and not cordoned.isdisjoint((EVERY_DIRECTORY, directory.path)),
        }
        for directory in directories
    ]
    answer = context.response(error_code=0, results=results)
    while asked:
        # One by one, in between which other threads run.
        asked.pop()
    return answer


def _answer(
    directory: DirectoryDescription, asked: set[TopicPartition] | None, copies: Sequence[LogCopy]
) -> dict[str, object]:
    if directory.failure is not None:
        return {"error_code": error_code(KafkaStorageError(directory.failure)), "log_dir": directory.path}
    topics: dict[str, list[dict[str, object]]] = {}
    for topic_partition, size_bytes in directory.log_bytes.items():
        if asked is None or topic_partition in asked:
            topics.setdefault(topic_partition.topic, []).append(
                {
                    "partition_index": topic_partition.partition,
                    "partition_size": size_bytes,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
            )
    for copy in copies:
        # Of a log that moves here. Its lag is that of the copy behind the log.
        topic_partition = copy.log.topic_partition
        if copy.parent_directory == directory.path and (asked is None or topic_partition in asked):
            topics.setdefault(topic_partition.topic, []).append(
                {
                    "partition_index": topic_partition.partition,
                    "partition_size": copy.size_bytes,
                    "offset_lag": copy.lag_offsets,
                    "is_future_key": True,
                }
            )
    return {
        "error_code": 0,
        "log_dir": directory.path,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
    }
