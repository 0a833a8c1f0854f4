"""OffsetForLeaderEpoch: the end offset of an epoch, from which consumers and followers see that the log was truncated.

For an epoch above the leader's own there is no end offset, and consumers then reset their position. That is right where
a topic was deleted and created again. But the reader may also have read from a newer leader, which this broker does not
know yet.
"""

from __future__ import annotations

import logging

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import NotLeaderOrFollower, RequestError
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import OffsetForLeaderEpochRequest, OffsetForLeaderPartition

logger = logging.getLogger(__name__)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext[PartitionParts]) -> Message:
    topics = [
        {
            "topic": topic.topic,
            "partitions": [
                _answer(topic.topic, asked, context, replica_id=request.replica_id)
                for asked in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return context.response(topics=topics)


def _answer(
    topic: str, asked: OffsetForLeaderPartition, context: RequestContext[PartitionParts], *, replica_id: int
) -> dict[str, object]:
    try:
        partition = context.broker.partitions.get(topic, asked.partition)
        leader = partition.require_leader(asked.current_leader_epoch)
        if leader.followers is None or replica_id not in leader.followers.known:
            leader.require_confirmed()
        epoch, end_offset = partition.reader.end_offset_for_epoch(asked.leader_epoch)
        if (
            asked.leader_epoch > partition.leader_epoch
            and not partition.replica.context.is_leadership_certain()
        ):
            raise NotLeaderOrFollower(
                f"{partition.topic_partition} is in leader epoch {partition.leader_epoch}, before "
                f"{asked.leader_epoch}; try again when the controller has said whether this broker still leads."
            )
    except RequestError as error:
        return {
            "error_code": error_code(error),
            "partition": asked.partition,
            "leader_epoch": -1,
            "end_offset": -1,
        }
    # For debugging readers that went back: this answer may have caused it.
    logger.debug(
        "%s: epoch %d ended at %d, says the leader of epoch %d",
        partition.topic_partition,
        asked.leader_epoch,
        end_offset,
        partition.leader_epoch,
    )
    return {"error_code": 0, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end_offset}
