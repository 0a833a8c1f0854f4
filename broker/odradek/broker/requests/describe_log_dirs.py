"""DescribeLogDirs: what each log directory holds, and how full its volume is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.replication.log_moves import FutureReplica
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import MANY, has_many, make_in_turns
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turn_limits import LOGS_LOOKED_AT_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.metadata.image.cordons import EVERY_DIRECTORY, find_cordoned_directories
from odradek.storage.directories.log_manager import DirectoryDescription
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DescribeLogDirsRequest


async def handle(request: DescribeLogDirsRequest, context: RequestContext[PartitionParts]) -> Message:
    directories, futures = await _describe_directories(context)
    is_long = request.topics is not None and has_many(topic.partitions for topic in request.topics)
    count = sum(map(len, futures.values())) + sum(len(directory.log_bytes) for directory in directories)
    return await make_in_turns(
        context, MANY if is_long else count, lambda: _answers(request, context, directories, futures)
    )


async def _describe_directories(
    context: RequestContext[PartitionParts],
) -> tuple[list[DirectoryDescription], Mapping[str, list[FutureReplica]]]:
    """The directories, and by directory the copies that move there. Each turn of the loop looks at some logs."""
    turn = Turn(LOGS_LOOKED_AT_PER_TURN_MAX)
    log_bytes: dict[str, dict[TopicPartition, int]] = {}
    futures: dict[str, list[FutureReplica]] = {}
    for log in context.broker.log_manager.logs():
        if turn.is_over():
            await turn.next()
        log_bytes.setdefault(log.parent_directory, {})[log.topic_partition] = log.size_bytes
        future = context.broker.log_moves.future_of(log)
        if future is not None:
            futures.setdefault(future.path, []).append(future)
    return context.broker.log_manager.directories.describe(log_bytes), futures


def _answers(
    request: DescribeLogDirsRequest,
    context: RequestContext[PartitionParts],
    directories: Iterable[DirectoryDescription],
    futures: Mapping[str, Sequence[FutureReplica]],
) -> Message:
    asked: set[TopicPartition] | None = None
    if request.topics is not None:
        asked = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cordoned = find_cordoned_directories(context.broker.images.current, context.broker.node_id)
    results = [
        {
            **_answer(directory, asked, futures.get(directory.path, ())),
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
    directory: DirectoryDescription, asked: set[TopicPartition] | None, futures: Sequence[FutureReplica]
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
    for future in futures:
        # Of a log that moves here. Its lag is that of the copy behind the log.
        if asked is None or future.topic_partition in asked:
            topics.setdefault(future.topic_partition.topic, []).append(
                {
                    "partition_index": future.topic_partition.partition,
                    "partition_size": future.size_bytes,
                    "offset_lag": future.lag_offsets,
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
