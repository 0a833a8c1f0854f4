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
from odradek.foundation.turns import Turn
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AlterReplicaLogDirsRequest


async def handle(request: AlterReplicaLogDirsRequest, context: RequestContext[PartitionParts]) -> Message:
    # A partition that is named twice has the last directory, and one answer.
    wanted = {
        TopicPartition(topic.name, index): directory.path.rstrip("/") or "/"
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    turn = Turn()
    results: dict[str, list[dict[str, int]]] = {}
    for topic_partition, path in wanted.items():
        if turn.is_over():
            await turn.next()
        try:
            _check(topic_partition, path, context.broker)
            context.broker.log_moves.move(topic_partition, path)
            code = 0
        except RequestError as error:
            code = error_code(error)
        results.setdefault(topic_partition.topic, []).append(
            {"partition_index": topic_partition.partition, "error_code": code}
        )
    return await make_in_turns(
        context,
        len(wanted),
        lambda: context.response(
            results=[{"topic_name": name, "partitions": answered} for name, answered in results.items()]
        ),
    )


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
