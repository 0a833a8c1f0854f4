"""DeleteRecords: advance the log start offset, so that readers no longer see the records below it.

As in Kafka, the answer waits until all live followers have advanced theirs too. The next leader does not have the
records either then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.broker.replication.acknowledgements import Waiters
from odradek.broker.replication.partition import Partition
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import InvalidTopic, RequestError, RequestTimedOut
from odradek.metadata.image.topic_names import is_internal_topic
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.cluster import DeleteRecordsPartition, DeleteRecordsRequest

# A partition's answer, and the partition where the answer waits for its followers.
_Deleted = tuple[dict[str, int], Partition | None]


def handle(
    request: DeleteRecordsRequest, context: RequestContext[PartitionParts]
) -> Message | Pending[Message]:
    topics = [
        (topic.name, [_delete(topic.name, asked, context) for asked in topic.partitions])
        for topic in request.topics
    ]
    waited = [one for _, partitions in topics for one in partitions if one[1] is not None]
    if not waited:
        return _answer(context, topics)
    timeout_seconds = milliseconds(request.timeout) / 1000
    return Pending(_when_deleted(context, topics, waited, timeout_seconds=timeout_seconds))


def _answer(context: RequestContext[PartitionParts], topics: list[tuple[str, list[_Deleted]]]) -> Message:
    return context.response(
        topics=[{"name": name, "partitions": [fields for fields, _ in found]} for name, found in topics]
    )


def _delete(topic: str, asked: DeleteRecordsPartition, context: RequestContext[PartitionParts]) -> _Deleted:
    fields = {"partition_index": asked.partition_index, "low_watermark": -1, "error_code": 0}
    try:
        if is_internal_topic(topic):
            raise InvalidTopic(f"Records of the internal topic {topic} cannot be deleted.")
        partition = context.broker.partitions.get(topic, asked.partition_index)
        leader = partition.require_leader()
        start = leader.delete_records(asked.offset)
    except RequestError as error:
        fields["error_code"] = error_code(error)
        return fields, None
    fields["low_watermark"] = start
    return fields, partition if leader.low_watermark < start else None


async def _when_deleted(
    context: RequestContext[PartitionParts],
    topics: list[tuple[str, list[_Deleted]]],
    waited: list[_Deleted],
    *,
    timeout_seconds: float,
) -> Message:
    """The answer once the low watermarks have reached the wanted offsets, or the request's time is up."""
    done: asyncio.Future[Mapping[Waiters, Exception]] = asyncio.get_running_loop().create_future()

    def finish(outcome: Mapping[Waiters, Exception]) -> None:
        if not done.done():
            done.set_result(outcome)

    pending = [
        (fields, partition.replica.pending_deletes) for fields, partition in waited if partition is not None
    ]
    waiting = context.broker.partitions.acknowledgements.wait(
        {waiters: fields["low_watermark"] for fields, waiters in pending},
        timeout_seconds=timeout_seconds,
        on_done=finish,
    )
    if waiting is None:
        full = RequestTimedOut("Too many requests wait for the replicas of this broker; try again.")
        finish({waiters: full for _, waiters in pending})
    try:
        outcome = await done
    finally:
        if waiting is not None:
            waiting.cancel()
    for fields, waiters in pending:
        if waiters in outcome:
            fields["low_watermark"] = -1
            fields["error_code"] = error_code(outcome[waiters])
    return _answer(context, topics)
