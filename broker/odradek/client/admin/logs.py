"""Logs and brokers: offsets by time, deletion of the first records, disk use, the brokers of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from odradek.client.admin.results import (
    ClusterDescription,
    ListedOffset,
    LogDirectoryDescription,
    ProducerOnPartition,
    ReplicaSize,
)
from odradek.client.client import Client
from odradek.client.errors import RETRIABLE, error_for, raise_for
from odradek.client.metadata import NO_LEADER
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition, by_topic
from odradek.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.protocol.responses.cluster import DescribeClusterBroker, DescribeLogDirsResult
    from odradek.protocol.responses.records import PartitionResponse

T = TypeVar("T")

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
    """The admin calls for logs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first record at or after a time, or LATEST, EARLIEST, MAX_TIMESTAMP. `offset` is -1 if
        no record is that young. Raises the first partition's error.
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
            return {tp: _found(found) for answer in answers for tp, found in answer.items()}

        return await self._client.with_retries(attempt)

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """As `list_offsets`, with one time for all partitions. Returns only the offsets."""
        listed = await self.list_offsets(
            dict.fromkeys(partitions, timestamp_ms), read_committed=read_committed
        )
        return {key: found.offset for key, found in listed.items()}

    async def list_offsets_each(
        self, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | OdradekError]:
        """As `list_offsets`, but each partition has its offset or its own error. A partition without a leader, or whose
        leader does not answer, delays the others by one retry at most.
        """

        async def attempt(
            wanted: Iterable[TopicPartition],
        ) -> dict[TopicPartition, ListedOffset | OdradekError]:
            by_leader, found = await self._leaders_each(wanted)
            outcomes = await asyncio.gather(
                *(
                    self._list_offsets_on(leader, {tp: timestamps_ms[tp] for tp in keys}, read_committed)
                    for leader, keys in by_leader.items()
                ),
                return_exceptions=True,
            )
            return found | _merged(by_leader.values(), outcomes)

        return await self._each(timestamps_ms, attempt)

    async def known_offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """As `offsets_at`, without the partitions that have an error: deleted ones, or ones without a leader."""
        found = await self.list_offsets_each(dict.fromkeys(partitions, timestamp_ms))
        return {key: one.offset for key, one in found.items() if not isinstance(one, OdradekError)}

    async def _leaders_each(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, OdradekError]]:
        """The partitions by their leaders, and the error of each that has none."""
        by_leader: dict[int, list[TopicPartition]] = {}
        failed: dict[TopicPartition, OdradekError] = {}
        wanted = list(partitions)
        cluster = await self._client.topics(sorted({key.topic for key in wanted}))
        for key in wanted:
            try:
                leader = cluster.partition(key).leader
            except OdradekError as failure:
                failed[key] = failure
                continue
            if leader == NO_LEADER:
                failed[key] = LeaderNotAvailable(f"partition {key} has no leader at the moment; try again")
            else:
                by_leader.setdefault(leader, []).append(key)
        return by_leader, failed

    async def _each(
        self,
        partitions: Iterable[TopicPartition],
        attempt: Callable[[list[TopicPartition]], Awaitable[dict[TopicPartition, T | OdradekError]]],
    ) -> dict[TopicPartition, T | OdradekError]:
        """`attempt` for all, and once more, with new metadata, for those that may succeed then."""
        wanted = list(partitions)
        if not wanted:
            return {}
        outcome = await attempt(wanted)
        again = [key for key in wanted if isinstance(outcome[key], RETRIABLE)]
        if again:
            self._client.invalidate()
            outcome |= await attempt(again)
        return {key: outcome[key] for key in wanted}

    async def _list_offsets_on(
        self, leader: int, timestamps_ms: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, ListedOffset | OdradekError]:
        # A leader that was replaced without knowing it must not answer (KIP-320).
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
        found: dict[TopicPartition, ListedOffset | OdradekError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(str(topic.name), int(partition.partition_index))
                found[key] = error_for(int(partition.error_code), about=f"partition {key}") or ListedOffset(
                    offset=int(partition.offset),
                    timestamp_ms=int(partition.timestamp),
                    leader_epoch=int(getattr(partition, "leader_epoch", -1)),
                )
        return found

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below these offsets (-1: all). Returns the new log start offsets."""

        async def attempt() -> dict[TopicPartition, int]:
            low: dict[TopicPartition, int] = {}
            for leader, partitions in (await self._client.leaders(before)).items():
                answer = await self._delete_records_on(leader, {key: before[key] for key in partitions})
                low |= {key: _found(offset) for key, offset in answer.items()}
            return low

        return await self._client.with_retries(attempt)

    async def delete_records_each(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | OdradekError]:
        """As `delete_records`, but each partition has its new log start offset or its own error."""

        async def attempt(wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int | OdradekError]:
            by_leader, found = await self._leaders_each(wanted)
            outcomes = await asyncio.gather(
                *(
                    self._delete_records_on(leader, {key: before[key] for key in keys})
                    for leader, keys in by_leader.items()
                ),
                return_exceptions=True,
            )
            return found | _merged(by_leader.values(), outcomes)

        return await self._each(before, attempt)

    async def _delete_records_on(
        self, leader: int, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | OdradekError]:
        topics: dict[str, list[dict[str, int]]] = {}
        for key, offset in before.items():
            row = {"partition_index": key.partition, "offset": offset}
            topics.setdefault(key.topic, []).append(row)
        response = await (await self._client.broker(leader)).request(
            ApiKey.DELETE_RECORDS,
            versions=DELETE_RECORDS_VERSIONS,
            topics=[{"name": name, "partitions": rows} for name, rows in topics.items()],
            timeout=self._client.request_timeout_ms,
        )
        return {
            key: error_for(int(partition.error_code), about=f"partition {key}")
            or int(partition.low_watermark)
            for topic in response.topics
            for partition in topic.partitions
            for key in [TopicPartition(str(topic.name), int(partition.partition_index))]
        }

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The brokers and their controller. With `include_fenced` also fenced brokers, which the cluster remembers.
        Before DescribeCluster 2 (KIP-1073) a broker answers without fenced ones.
        """
        response = await (await self._client.any_broker()).request(
            ApiKey.DESCRIBE_CLUSTER,
            versions=DESCRIBE_CLUSTER_VERSIONS,
            include_cluster_authorized_operations=False,
            endpoint_type=BROKERS_ENDPOINT_TYPE,
            include_fenced_brokers=include_fenced,
        )
        raise_for(int(response.error_code), response.error_message)
        return ClusterDescription(
            cluster_id=str(response.cluster_id),
            controller_id=int(response.controller_id),
            brokers=_brokers(b for b in response.brokers if not getattr(b, "is_fenced", False)),
            fenced=_brokers(b for b in response.brokers if getattr(b, "is_fenced", False)),
        )

    async def describe_log_dirs(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirectoryDescription]:
        """The log directories of every broker, with the sizes of all replicas or of those of `partitions`."""
        wanted = None if partitions is None else list(partitions)
        directories: list[LogDirectoryDescription] = []
        cluster = await self._client.refresh(())
        for broker_id in sorted(cluster.brokers):
            directories.extend(await self.describe_log_dirs_of(broker_id, wanted))
        return directories

    async def describe_log_dirs_of(
        self, broker_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirectoryDescription]:
        """The log directories of one broker. Raises ConnectionFailed or ClientTimeout when it does not answer."""
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
        """The producers whose state the partition's leader has."""

        async def attempt() -> PartitionResponse:
            (leader,) = await self._client.leaders([partition])
            response = await (await self._client.broker(leader)).request(
                ApiKey.DESCRIBE_PRODUCERS,
                versions=DESCRIBE_PRODUCERS_VERSIONS,
                topics=[{"name": partition.topic, "partition_indexes": [partition.partition]}],
            )
            answer: PartitionResponse = response.topics[0].partitions[0]
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
                coordinator_epoch=int(producer.coordinator_epoch),
            )
            for producer in answer.active_producers
        ]


def _found(outcome: T | OdradekError) -> T:
    if isinstance(outcome, OdradekError):
        raise outcome
    return outcome


def _merged(
    asked: Iterable[list[TopicPartition]],
    outcomes: Iterable[dict[TopicPartition, T | OdradekError] | BaseException],
) -> dict[TopicPartition, T | OdradekError]:
    """Merge the answers of several leaders. A request that failed as a whole fails all its partitions."""
    merged: dict[TopicPartition, T | OdradekError] = {}
    for keys, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, OdradekError):
            merged |= dict.fromkeys(keys, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            merged |= outcome
    return merged


def _brokers(answered: Iterable[DescribeClusterBroker]) -> dict[int, tuple[str, int, str | None]]:
    return {int(b.broker_id): (str(b.host), int(b.port), b.rack) for b in answered}


def _log_directory(broker_id: int, result: DescribeLogDirsResult) -> LogDirectoryDescription:
    failure = error_for(int(result.error_code), about=f"log directory {result.log_dir}")
    return LogDirectoryDescription(
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
