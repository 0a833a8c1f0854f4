"""Logs and brokers: offsets by time, deletion of the first records, disk use, the brokers of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import RETRIABLE, error_for, raise_for
from odradek.client.metadata import NO_LEADER
from odradek.client.partition_rows import list_answer_rows, numbers_by_topic, rows_by_topic
from odradek.client.results import (
    ClusterDescription,
    ListedOffset,
    LogDirectoryDescription,
    ProducerOnPartition,
    ReplicaSize,
)
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.cluster import DescribeClusterBroker, DescribeLogDirsResult
    from odradek.wire.protocol.responses.records import (
        DeleteRecordsResponse,
        DescribeProducersResponse,
        ListOffsetsResponse,
    )

T = TypeVar("T")
Outcomes = dict[TopicPartition, T | OdradekError]
Ask = Callable[[int, Mapping[TopicPartition, int]], Awaitable[Outcomes[T]]]

LIST_OFFSETS_VERSIONS = (2, 10)
DELETE_RECORDS_VERSIONS = (0, 2)
DESCRIBE_CLUSTER_VERSIONS = (0, 2)
DESCRIBE_LOG_DIRS_VERSIONS = (1, 5)
ALTER_REPLICA_LOG_DIRS_VERSIONS = (1, 2)
DESCRIBE_PRODUCERS_VERSIONS = (0, 0)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
CONSUMER_REPLICA_ID = -1
BROKERS_ENDPOINT_TYPE = 1


@checking_arguments()
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
        return await self._all(timestamps_ms, partial(self._list_offsets_on, read_committed=read_committed))

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
    ) -> Outcomes[ListedOffset]:
        """As `list_offsets`, but each partition has its offset or its own error. A partition without a leader, or whose
        leader does not answer, delays the others by one retry at most.
        """
        return await self._each(timestamps_ms, partial(self._list_offsets_on, read_committed=read_committed))

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

    async def _all(self, wanted: Mapping[TopicPartition, int], ask: Ask[T]) -> dict[TopicPartition, T]:
        """Whatever `ask` finds at the leaders. Raises the first partition's error."""

        async def attempt() -> dict[TopicPartition, T]:
            by_leader = await self._client.leaders(wanted)
            answers = await asyncio.gather(*_ask_leaders(ask, wanted, by_leader))
            return {key: _result_or_raise(found) for answer in answers for key, found in answer.items()}

        return await self._client.with_retries(attempt)

    async def _each(self, wanted: Mapping[TopicPartition, int], ask: Ask[T]) -> Outcomes[T]:
        """Whatever `ask` finds at the leaders, and once more, with new metadata, for those that may succeed then."""

        async def attempt(some: Iterable[TopicPartition]) -> Outcomes[T]:
            by_leader, failed = await self._leaders_each(some)
            outcomes = await asyncio.gather(*_ask_leaders(ask, wanted, by_leader), return_exceptions=True)
            return failed | _merge_outcomes(by_leader.values(), outcomes)

        if not wanted:
            return {}
        outcome = await attempt(wanted)
        again = [key for key in wanted if isinstance(outcome[key], RETRIABLE)]
        if again:
            self._client.invalidate()
            outcome |= await attempt(again)
        return {key: outcome[key] for key in wanted}

    async def _list_offsets_on(
        self, leader: int, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> Outcomes[ListedOffset]:
        # A leader that was replaced without knowing it must not answer (KIP-320).
        leader_epochs = self._client.leader_epochs(timestamps_ms)
        rows = (
            (
                key,
                {
                    "partition_index": key.partition,
                    "current_leader_epoch": leader_epochs[key],
                    "timestamp": timestamp_ms,
                },
            )
            for key, timestamp_ms in timestamps_ms.items()
        )
        response: ListOffsetsResponse = await (await self._client.broker(leader)).request(
            ApiKey.LIST_OFFSETS,
            versions=LIST_OFFSETS_VERSIONS,
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=int(read_committed),
            topics=rows_by_topic(rows),
            timeout=self._client.request_timeout_ms,
        )
        return {
            key: error_for(row.error_code, about=f"partition {key}", topic=key.topic)
            or ListedOffset(row.offset, row.timestamp, getattr(row, "leader_epoch", -1))
            for key, row in list_answer_rows(response.topics)
        }

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below these offsets (-1: all). Returns the new log start offsets."""
        return await self._all(before, self._delete_records_on)

    async def delete_records_each(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | OdradekError]:
        """As `delete_records`, but each partition has its new log start offset or its own error."""
        return await self._each(before, self._delete_records_on)

    async def _delete_records_on(self, leader: int, before: Mapping[TopicPartition, int]) -> Outcomes[int]:
        rows = ((key, {"partition_index": key.partition, "offset": offset}) for key, offset in before.items())
        response: DeleteRecordsResponse = await (await self._client.broker(leader)).request(
            ApiKey.DELETE_RECORDS,
            versions=DELETE_RECORDS_VERSIONS,
            topics=rows_by_topic(rows),
            timeout=self._client.request_timeout_ms,
        )
        return {
            key: error_for(row.error_code, about=f"partition {key}", topic=key.topic) or row.low_watermark
            for key, row in list_answer_rows(response.topics)
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
        raise_for(response.error_code, response.error_message)
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
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
        response = await (await self._client.broker(broker_id)).request(
            ApiKey.DESCRIBE_LOG_DIRS,
            versions=DESCRIBE_LOG_DIRS_VERSIONS,
            topics=numbers_by_topic(partitions, topic="topic", partitions="partitions"),
        )
        raise_for(getattr(response, "error_code", 0), about=f"broker {broker_id}")
        return [_log_directory(broker_id, result) for result in response.results]

    async def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, OdradekError | None]:
        """Have replicas of a broker in these of its log directories (KIP-113); the moves continue after the answer.

        Returns what refuses each of them, or None.
        """
        by_path: dict[str, list[TopicPartition]] = {}
        for key, path in wanted.items():
            by_path.setdefault(path, []).append(key)
        response = await (await self._client.broker(broker_id)).request(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            versions=ALTER_REPLICA_LOG_DIRS_VERSIONS,
            dirs=[
                {"path": path, "topics": numbers_by_topic(keys, partitions="partitions")}
                for path, keys in by_path.items()
            ],
        )
        return {
            TopicPartition(topic.topic_name, row.partition_index): error_for(
                row.error_code, about=f"{topic.topic_name}-{row.partition_index} on broker {broker_id}"
            )
            for topic in response.results
            for row in topic.partitions
        }

    async def describe_producers(self, partition: TopicPartition) -> list[ProducerOnPartition]:
        """The producers whose state the partition's leader has."""
        return (await self.describe_producers_of([partition]))[partition]

    async def describe_producers_of(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerOnPartition]]:
        """As `describe_producers`, one request for each leader. Raises the first partition's error."""
        wanted = dict.fromkeys(partitions, 0)
        return await self._all(wanted, self._describe_producers_on) if wanted else {}

    async def _describe_producers_on(
        self, leader: int, partitions: Iterable[TopicPartition]
    ) -> Outcomes[list[ProducerOnPartition]]:
        response: DescribeProducersResponse = await (await self._client.broker(leader)).request(
            ApiKey.DESCRIBE_PRODUCERS,
            versions=DESCRIBE_PRODUCERS_VERSIONS,
            topics=numbers_by_topic(partitions, partitions="partition_indexes"),
        )
        return {
            key: error_for(row.error_code, row.error_message, about=f"partition {key}", topic=key.topic)
            or [
                ProducerOnPartition(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp_ms=producer.last_timestamp,
                    transaction_start_offset=producer.current_txn_start_offset,
                    coordinator_epoch=producer.coordinator_epoch,
                )
                for producer in row.active_producers
            ]
            for key, row in list_answer_rows(response.topics)
        }


def _ask_leaders(
    ask: Ask[T], wanted: Mapping[TopicPartition, int], by_leader: Mapping[int, list[TopicPartition]]
) -> Iterator[Awaitable[Outcomes[T]]]:
    return (ask(leader, {key: wanted[key] for key in keys}) for leader, keys in by_leader.items())


def _result_or_raise(outcome: T | OdradekError) -> T:
    if isinstance(outcome, OdradekError):
        raise outcome
    return outcome


def _merge_outcomes(
    asked: Iterable[list[TopicPartition]], outcomes: Iterable[Outcomes[T] | BaseException]
) -> Outcomes[T]:
    """Merge the answers of several leaders. A request that failed as a whole fails all its partitions."""
    merged: Outcomes[T] = {}
    for keys, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, OdradekError):
            merged |= dict.fromkeys(keys, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            merged |= outcome
    return merged


def _brokers(answered: Iterable[DescribeClusterBroker]) -> dict[int, tuple[str, int, str | None]]:
    return {b.broker_id: (b.host, b.port, b.rack) for b in answered}


def _log_directory(broker_id: int, result: DescribeLogDirsResult) -> LogDirectoryDescription:
    failure = error_for(result.error_code, about=f"log directory {result.log_dir}")
    rows = list(list_answer_rows(result.topics))
    return LogDirectoryDescription(
        broker_id=broker_id,
        path=result.log_dir,
        total_bytes=getattr(result, "total_bytes", -1),
        usable_bytes=getattr(result, "usable_bytes", -1),
        replicas={
            key: ReplicaSize(row.partition_size, row.offset_lag) for key, row in rows if not row.is_future_key
        },
        error=None if failure is None else str(failure),
        arriving={
            key: ReplicaSize(row.partition_size, row.offset_lag) for key, row in rows if row.is_future_key
        },
        is_cordoned=getattr(result, "is_cordoned", False),
    )
