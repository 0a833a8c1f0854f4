"""Where leader epochs end in the present leader's log, so that a consumer detects truncated records (KIP-320).

Brokers below OffsetForLeaderEpoch 3 refuse consumers, or do not check the leader's epoch. They get no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.client.client import Client
from odradek.client.errors import error_for
from odradek.client.partition_rows import rows_by_topic
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.protocol.api import ApiKey

OFFSET_FOR_LEADER_EPOCH_VERSIONS: Final = (3, 4)
CONSUMER_REPLICA_ID: Final = -1


class AskedEpoch(NamedTuple):
    """The epoch that was read last, and the epoch of the known leader."""

    epoch: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The newest epoch not after the requested one and its end, both -1 if there is none; or the error."""

    failure: OdradekError | None
    epoch: int = -1
    end_offset: int = -1


async def epoch_ends(
    client: Client, leader: int, asked: Mapping[TopicPartition, AskedEpoch], *, lane: str = ""
) -> dict[TopicPartition, EpochEnd]:
    """The ends of these epochs, for each partition. Raises the error of a request that failed as a whole, and
    UnsupportedByBroker.
    """
    rows = (
        (
            key,
            {
                "partition": key.partition,
                "current_leader_epoch": epochs.leader_epoch,
                "leader_epoch": epochs.epoch,
            },
        )
        for key, epochs in asked.items()
    )
    response = await (await client.broker(leader, lane=lane)).request(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        versions=OFFSET_FOR_LEADER_EPOCH_VERSIONS,
        replica_id=CONSUMER_REPLICA_ID,
        topics=rows_by_topic(rows, topic="topic"),
    )
    ends = {
        key: EpochEnd(LeaderNotAvailable(f"broker {leader} did not answer for partition {key}"))
        for key in asked
    }
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.topic, partition.partition)
            ends[key] = EpochEnd(
                error_for(partition.error_code, about=f"partition {key}"),
                partition.leader_epoch,
                partition.end_offset,
            )
    return ends
