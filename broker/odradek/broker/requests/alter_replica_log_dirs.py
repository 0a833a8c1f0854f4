"""AlterReplicaLogDirs: have replicas of this broker in other log directories (KIP-113).

A replica moves while it is written and read (`replication.log_moves`); the answer comes before the move. For a replica
that is not here the directory is remembered, for when it comes, and the answer is REPLICA_NOT_AVAILABLE, as in Kafka.
"""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import (
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    RequestError,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Leftovers, Turn
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AlterReplicaLogDirsRequest


async def handle(request: AlterReplicaLogDirsRequest, context: RequestContext[PartitionParts]) -> Message:
    turn = Turn()
    async with Leftovers() as kept:
        # A partition that is named twice has the last directory, and one answer.
        wanted: dict[TopicPartition, str] = kept.until_end({})
        for directory in request.dirs:
            path = directory.path.rstrip("/") or "/"
            for topic in directory.topics:
                for index in topic.partitions:
                    if turn.is_over():
                        await turn.next()
                    wanted[TopicPartition(topic.name, index)] = path
        results: dict[str, list[dict[str, int]]] = kept.until_end({})
        for topic_partition, path in wanted.items():
            if turn.is_over():
                await turn.next()
            results.setdefault(topic_partition.topic, []).append(
                {
                    "partition_index": topic_partition.partition,
                    "error_code": _begin_move(topic_partition, path, context.broker),
                }
            )
        return await make_in_turns(
            context,
            len(wanted),
            lambda: context.response(
                results=[{"topic_name": name, "partitions": answered} for name, answered in results.items()]
            ),
        )


def _begin_move(topic_partition: TopicPartition, path: str, broker: PartitionParts) -> int:
    """The error code of the partition; 0 where its move begins, or is not needed."""
    try:
        _check(topic_partition, path, broker)
        broker.log_moves.move(topic_partition, path)
    except RequestError as error:
        return error_code(error)
    return 0


def _check(topic_partition: TopicPartition, path: str, parts: PartitionParts) -> None:
    directory = parts.log_manager.directories.by_path.get(path)
    if directory is None:
        raise LogDirNotFound(f"{path} is no log directory of this broker.")
    if directory.failure is not None:
        raise KafkaStorageError(f"The log directory {path} is offline: {directory.failure}")
    try:
        parts.partitions.get(*topic_partition)
    except NotLeaderOrFollower as error:
        parts.log_manager.moves.choose(topic_partition, path)
        raise ReplicaNotAvailable(f"{topic_partition} is not here; it will come to {path}.") from error
