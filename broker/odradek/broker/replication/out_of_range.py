"""Where a follower fetches from when its leader does not have the offset of its fetch.

Such a leader's log ends before that offset, or starts after it.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.replication.broker_transport import BrokerTransport, list_offset
from odradek.broker.replication.follower import FetchPosition
from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import NotLeaderOrFollower

_LIST_OFFSETS_VERSION: Final = 10
_LATEST: Final = -1
_EARLIEST_LOCAL: Final = -4


async def resolve_out_of_range(
    partition: Partition, position: FetchPosition, *, leader: int, broker_id: int, transport: BrokerTransport
) -> None:
    """Truncate the log to the leader's end, or start again at the leader's start.

    Nothing happens once the follower is no longer at `position`.

    `broker_id` is the follower's. Raises OSError, RequestError and FrameError.
    """

    async def leader_offset(timestamp_ms: int) -> int:
        code, offset = await list_offset(
            transport,
            leader,
            partition.topic_partition,
            timestamp_ms,
            api_version=_LIST_OFFSETS_VERSION,
            replica_id=broker_id,
            leader_epoch=position.leader_epoch,
        )
        if code or offset < 0:
            raise NotLeaderOrFollower(
                f"broker {leader} gives no offset to continue {partition.topic_partition} from (error {code})."
            )
        return offset

    end_offset = await leader_offset(_LATEST)
    follower = partition.follower
    if follower is None or not follower.is_at(position):
        return
    if end_offset < position.fetch_offset:
        follower.truncate_to(end_offset)
        return
    start_offset = await leader_offset(_EARLIEST_LOCAL)
    follower = partition.follower
    if follower is not None and follower.is_at(position) and start_offset > position.fetch_offset:
        follower.truncate_fully_and_start_at(start_offset)
