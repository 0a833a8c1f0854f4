"""The requests of a consumer to one leader, and their answers as values: Fetch, and OffsetForLeaderEpoch (KIP-320)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.errors import error_for, raise_for
from odradek.client.partition_rows import rows_by_topic
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.records import FetchPartitionData

# From 13 on topics go by id, which only matters if a topic is created again between two fetches.
FETCH_VERSIONS = (4, 12)
FETCH_BY_ID_VERSIONS = (4, 13)
NO_SESSION_ID = 0
FINAL_SESSION_EPOCH = -1
# Brokers below 3 refuse consumers, or do not check the leader's epoch. They get no request.
OFFSET_FOR_LEADER_EPOCH_VERSIONS = (3, 4)
CONSUMER_REPLICA_ID = -1


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """The bytes of one fetch, and how long the broker may wait for `bytes_min`."""

    bytes_min: int = 1
    wait_ms_max: int = 500
    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024


class CompletedFetch(NamedTuple):
    """The answer of a partition: an error, or bytes of batches (maybe none)."""

    failure: OdradekError | None
    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


async def fetch_on(
    connection: BrokerConnection,
    offsets: Mapping[TopicPartition, int],
    *,
    leader_epochs: Mapping[TopicPartition, int],
    bounds: FetchBounds,
    is_read_committed: bool,
    timeout_ms: int,
    sizes: Mapping[TopicPartition, int] | None = None,
    topic_ids: Mapping[str, uuid.UUID] | None = None,
) -> dict[TopicPartition, CompletedFetch]:
    """Fetch from these offsets. Raises the error of a request that failed as a whole. `leader_epochs` are those of the
    known leaders, -1 for any. A broker that leads in another epoch refuses. `sizes` are the partitions' own limits in
    bytes. With `topic_ids` a topic that was deleted and created again is another one, where the broker knows ids.
    """
    ids = topic_ids or {}
    names = {topic_id: name for name, topic_id in ids.items()}
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            {
                "partition": partition,
                "current_leader_epoch": leader_epochs[TopicPartition(topic, partition)],
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": bounds.partition_bytes_max
                if sizes is None
                else sizes[TopicPartition(topic, partition)],
            }
        )
    response = await connection.request(
        ApiKey.FETCH,
        versions=FETCH_BY_ID_VERSIONS if ids else FETCH_VERSIONS,
        timeout_ms=timeout_ms,
        replica_id=CONSUMER_REPLICA_ID,
        max_wait=bounds.wait_ms_max,
        min_bytes=bounds.bytes_min,
        max_bytes=bounds.bytes_max,
        isolation_level=int(is_read_committed),
        session_id=NO_SESSION_ID,
        session_epoch=FINAL_SESSION_EPOCH,
        topics=[
            {"topic": name, "topic_id": ids.get(name), "partitions": rows} for name, rows in topics.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    raise_for(int(getattr(response, "error_code", 0)), about="a fetch")
    found: dict[TopicPartition, CompletedFetch] = {}
    for topic in response.responses:
        name = topic.topic if hasattr(topic, "topic") else names[topic.topic_id]
        for partition in topic.partitions:
            found[TopicPartition(name, partition.partition_index)] = _complete_fetch(name, partition)
    return found


def _complete_fetch(topic: str, partition: FetchPartitionData) -> CompletedFetch:
    about = f"partition {topic}-{partition.partition_index}"
    return CompletedFetch(
        failure=error_for(partition.error_code, about=about, topic=topic),
        data=memoryview(partition.records or b""),
        aborted=tuple(
            (transaction.first_offset, transaction.producer_id)
            for transaction in partition.aborted_transactions or ()
        ),
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=int(getattr(partition, "log_start_offset", -1)),
    )


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
    """Where these epochs end in the leader's log, so that a consumer detects truncated records. Raises the error of a
    request that failed as a whole, and UnsupportedByBroker.
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
                error_for(partition.error_code, about=f"partition {key}", topic=key.topic),
                partition.leader_epoch,
                partition.end_offset,
            )
    return ends
