"""OffsetForLeaderEpoch: where an epoch ended, by which consumers and followers find out that the log was
cut.

Of an epoch after the leader's own there is nothing to say, and consumers begin anew then. It happens where a topic was
made anew; but a reader may also have been with a newer leader, of which this one has not heard.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from odradek.foundation.errors import NotLeaderOrFollower, RequestError
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

VERSIONS: Final = (2, 4)

logger = logging.getLogger(__name__)


def handle(request: Any, context: RequestContext) -> Any:
    topics = [
        {
            "topic": topic.topic,
            "partitions": [
                _answer(topic.topic, asked, context, replica_id=getattr(request, "replica_id", -1))
                for asked in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return messages.response(ApiKey.OFFSET_FOR_LEADER_EPOCH, context.header.api_version, topics=topics)


def _answer(topic: str, asked: Any, context: RequestContext, *, replica_id: int) -> dict[str, Any]:
    try:
        partition = context.broker.partitions.get(topic, asked.partition)
        partition.require_leader(getattr(asked, "current_leader_epoch", -1))
        if partition.followers is None or replica_id not in partition.followers.known:
            partition.require_confirmed()
        epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
        if asked.leader_epoch > partition.leader_epoch and not partition.context.is_sure():
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
    # Who was told that records are gone is asked when a reader went back.
    logger.debug(
        "%s: epoch %d ended at %d, says the leader of epoch %d",
        partition.topic_partition,
        asked.leader_epoch,
        end_offset,
        partition.leader_epoch,
    )
    return {"error_code": 0, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end_offset}
