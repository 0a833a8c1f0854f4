"""Logs and brokers: offsets by time, deleting records from the front, disk use, who is in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from odradek.client.admin.results import (
    ClusterDescription,
    ListedOffset,
    LogDirectory,
    ProducerOnPartition,
    ReplicaSize,
)
from odradek.client.client import Client
from odradek.client.errors import error_for, raise_for
from odradek.foundation.ids import TopicPartition, by_topic
from odradek.protocol.api import ApiKey

LIST_OFFSETS_VERSIONS = (2, 10)
DELETE_RECORDS_VERSIONS = (0, 2)
DESCRIBE_CLUSTER_VERSIONS = (0, 2)
DESCRIBE_LOG_DIRS_VERSIONS = (1, 4)
DESCRIBE_PRODUCERS_VERSIONS = (0, 0)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
CONSUMER_REPLICA_ID = -1
BROKERS_ENDPOINT_TYPE = 1


class LogAdmin:
    """What can be asked of and done to logs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first record at or after a time, or LATEST, EARLIEST, MAX_TIMESTAMP.

        `offset` is -1 where no record is that young. Raises the first partition's error.
        """
        if not timestamps_ms:
            return {}

        async def attempt() -> dict[TopicPartition, ListedOffset]:
            by_leader = await self._client.leaders(timestamps_ms)
            answers = await asyncio.gather(
                *(
                    self._list_offsets_on(
                        leader, {tp: timestamps_ms[tp] for tp in partitions}, read_committed
                    )
                    for leader, partitions in by_leader.items()
                )
            )
            return {tp: found for answer in answers for tp, found in answer.items()}

        return await self._client.with_retries(attempt)

    async def _list_offsets_on(
        self, leader: int, timestamps_ms: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, ListedOffset]:
        # A leader that was replaced and does not know it yet must not answer (KIP-320).
        leader_epochs = self._client.leader_epochs(timestamps_ms)
        topics: dict[str, list[dict[str, int]]] = {}
        for key, timestamp_ms in timestamps_ms.items():
            topics.setdefault(key.topic, []).append(
                {
                    "partition_index": key.partition,
                    "current_leader_epoch": leader_epochs[key],
                    "timestamp": timestamp_ms,
                }
            )
        response = await (await self._client.broker(leader)).request(
            ApiKey.LIST_OFFSETS,
            versions=LIST_OFFSETS_VERSIONS,
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=int(read_committed),
            topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
            timeout=self._client.request_timeout_ms,
        )
        found: dict[TopicPartition, ListedOffset] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(str(topic.name), int(partition.partition_index))
                raise_for(int(partition.error_code), about=f"partition {key}")
                found[key] = ListedOffset(
                    offset=int(partition.offset),
                    timestamp_ms=int(partition.timestamp),
                    leader_epoch=int(getattr(partition, "leader_epoch", -1)),
                )
        return found

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies below these offsets (-1: everything); answers the new log start offsets."""

        async def attempt() -> dict[TopicPartition, int]:
            low: dict[TopicPartition, int] = {}
            for leader, partitions in (await self._client.leaders(before)).items():
                topics: dict[str, list[dict[str, int]]] = {}
                for key in partitions:
                    row = {"partition_index": key.partition, "offset": before[key]}
                    topics.setdefault(key.topic, []).append(row)
                response = await (await self._client.broker(leader)).request(
                    ApiKey.DELETE_RECORDS,
                    versions=DELETE_RECORDS_VERSIONS,
                    topics=[{"name": name, "partitions": rows} for name, rows in topics.items()],
                    timeout=self._client.request_timeout_ms,
                )
                for topic in response.topics:
                    for partition in topic.partitions:
                        key = TopicPartition(str(topic.name), int(partition.partition_index))
                        raise_for(int(partition.error_code), about=f"partition {key}")
                        low[key] = int(partition.low_watermark)
            return low

        return await self._client.with_retries(attempt)

    async def describe_cluster(self) -> ClusterDescription:
        """The brokers and who controls them."""
        response = await (await self._client.any_broker()).request(
            ApiKey.DESCRIBE_CLUSTER,
            versions=DESCRIBE_CLUSTER_VERSIONS,
            include_cluster_authorized_operations=False,
            endpoint_type=BROKERS_ENDPOINT_TYPE,
            include_fenced_brokers=False,
        )
        raise_for(int(response.error_code), response.error_message)
        return ClusterDescription(
            cluster_id=str(response.cluster_id),
            controller_id=int(response.controller_id),
            brokers={int(b.broker_id): (str(b.host), int(b.port), b.rack) for b in response.brokers},
        )

    async def describe_log_dirs(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirectory]:
        """The log directories of every broker with the size of each replica, or of those of these partitions."""
        wanted = None if partitions is None else list(partitions)
        directories: list[LogDirectory] = []
        cluster = await self._client.refresh(())
        for broker_id in sorted(cluster.brokers):
            directories.extend(await self.describe_log_dirs_of(broker_id, wanted))
        return directories

    async def describe_log_dirs_of(
        self, broker_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirectory]:
        """The log directories of one broker. Raises ConnectionFailed, ClientTimeout when it does not answer."""
        topics = None
        if partitions is not None:
            topics = [
                {"topic": topic, "partitions": numbers} for topic, numbers in by_topic(partitions).items()
            ]
        response = await (await self._client.broker(broker_id)).request(
            ApiKey.DESCRIBE_LOG_DIRS, versions=DESCRIBE_LOG_DIRS_VERSIONS, topics=topics
        )
        raise_for(int(getattr(response, "error_code", 0)), about=f"broker {broker_id}")
        return [_log_directory(broker_id, result) for result in response.results]

    async def describe_producers(self, partition: TopicPartition) -> list[ProducerOnPartition]:
        """The producers that the partition's leader remembers."""

        async def attempt() -> Any:
            (leader,) = await self._client.leaders([partition])
            response = await (await self._client.broker(leader)).request(
                ApiKey.DESCRIBE_PRODUCERS,
                versions=DESCRIBE_PRODUCERS_VERSIONS,
                topics=[{"name": partition.topic, "partition_indexes": [partition.partition]}],
            )
            answer = response.topics[0].partitions[0]
            raise_for(int(answer.error_code), answer.error_message, about=f"partition {partition}")
            return answer

        answer = await self._client.with_retries(attempt)
        return [
            ProducerOnPartition(
                producer_id=int(producer.producer_id),
                producer_epoch=int(producer.producer_epoch),
                last_sequence=int(producer.last_sequence),
                last_timestamp_ms=int(producer.last_timestamp),
                transaction_start_offset=int(producer.current_txn_start_offset),
            )
            for producer in answer.active_producers
        ]


def _log_directory(broker_id: int, result: Any) -> LogDirectory:
    failure = error_for(int(result.error_code), about=f"log directory {result.log_dir}")
    return LogDirectory(
        broker_id=broker_id,
        path=str(result.log_dir),
        total_bytes=int(getattr(result, "total_bytes", -1)),
        usable_bytes=int(getattr(result, "usable_bytes", -1)),
        replicas={
            TopicPartition(str(topic.name), int(partition.partition_index)): ReplicaSize(
                size_bytes=int(partition.partition_size), offset_lag=int(partition.offset_lag)
            )
            for topic in result.topics
            for partition in topic.partitions
        },
        error=None if failure is None else str(failure),
    )
