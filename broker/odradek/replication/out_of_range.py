"""Where a follower goes on whose leader does not have the offset that it asked for: the leader ends before, or starts
after.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import NotLeaderOrFollower
from odradek.protocol import messages
from odradek.protocol.api import ApiKey
from odradek.replication.follower import FetchPosition
from odradek.replication.partition import Partition
from odradek.replication.way import Way

_LIST_OFFSETS_VERSION: Final = 10
_LATEST: Final = -1
_EARLIEST_LOCAL: Final = -4


async def find_place(
    partition: Partition, position: FetchPosition, *, leader: int, broker_id: int, way: Way
) -> None:
    """Cut off what the leader does not have, or begin anew where it starts; nothing once `position` is overtaken.

    `broker_id` is who asks. Raises OSError, RequestError and FrameError.
    """

    async def leader_offset(timestamp_ms: int) -> int:
        return await _offset(partition, position, timestamp_ms, leader=leader, broker_id=broker_id, way=way)

    end_offset = await leader_offset(_LATEST)
    if not partition.is_at(position):
        return
    if end_offset < position.fetch_offset:
        partition.truncate_to(end_offset)
        return
    start_offset = await leader_offset(_EARLIEST_LOCAL)
    if partition.is_at(position) and start_offset > position.fetch_offset:
        partition.begin_anew(start_offset)


async def _offset(
    partition: Partition,
    position: FetchPosition,
    timestamp_ms: int,
    *,
    leader: int,
    broker_id: int,
    way: Way,
) -> int:
    topic, number = partition.topic_partition
    asked = {
        "partition_index": number,
        "current_leader_epoch": position.leader_epoch,
        "timestamp": timestamp_ms,
    }
    message = messages.request(
        ApiKey.LIST_OFFSETS,
        _LIST_OFFSETS_VERSION,
        replica_id=broker_id,
        topics=[{"name": topic, "partitions": [asked]}],
    )
    response = await way.send(leader, ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, message)
    (answered,) = response.topics
    (answer,) = answered.partitions
    if int(answer.error_code) or int(answer.offset) < 0:
        raise NotLeaderOrFollower(
            f"broker {leader} does not say where {partition.topic_partition} is to go on "
            f"(error {int(answer.error_code)})."
        )
    return int(answer.offset)
