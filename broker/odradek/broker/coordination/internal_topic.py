"""An internal topic of a running broker: `InternalTopicLog` over the partitions that this broker leads.

With one replica an append is committed when it returns, or with flush.messages once it is flushed. Data that is not in
the page cache is read in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.transactional_writes import append_marker, begin_verification
from odradek.metadata.image.image import ImageHolder, TopicImage
from odradek.storage.log import Origin
from odradek.storage.verification import VerificationToken
from odradek.wire.records.control import Marker


class TopicCreator(Protocol):
    """The controller, in this process or in another one."""

    async def ensure_topic(self, name: str) -> TopicImage: ...


class ReplicatedTopicLog:
    """An `InternalTopicLog`.

    `new_topic_partitions` is how many partitions the topic gets when it is created. `commit_timeout_ms` is how long a
    client waits for an append.
    """

    def __init__(
        self,
        topic: str,
        *,
        partitions: HostedPartitions,
        images: ImageHolder,
        controller: TopicCreator,
        new_topic_partitions: int,
        commit_timeout_ms: int,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._images = images
        self._controller = controller
        self._new_topic_partitions = new_topic_partitions
        self._commit_timeout_ms = commit_timeout_ms

    def partition_count(self) -> int:
        topic = self._images.current.topics.get(self._topic)
        return self._new_topic_partitions if topic is None else len(topic.partitions)

    def list_led_partitions(self) -> Iterable[int]:
        topic = self._images.current.topics.get(self._topic)
        count = 0 if topic is None else len(topic.partitions)
        return [partition for partition in range(count) if self.is_ready(partition)]

    def is_ready(self, partition: int) -> bool:
        found = self._partitions.find(self._topic, partition)
        return found is not None and (found.leader is None or found.leader.is_confirmed)

    def get_led_since_epoch(self, partition: int) -> int:
        return self._partitions.get(self._topic, partition).led_since_epoch

    def bounds(self, partition: int) -> tuple[int, int]:
        found = self._partitions.get(self._topic, partition)
        # To the log's end, as Kafka does. A new leader may know an old high watermark, and records above it may be
        # acknowledged.
        return found.log.log_start_offset, found.log.log_end_offset

    def is_committed(self, partition: int, end_offset: int) -> bool:
        return self._partitions.get(self._topic, partition).high_watermark >= end_offset

    def append(
        self, partition: int, batch: bytearray, *, token: VerificationToken | None = None
    ) -> int | Awaitable[int]:
        """Raises UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError, RequestTimedOut, what logs raise."""
        found = self._partitions.get(self._topic, partition)
        if found.leader is None:
            raise found.reject(memoryview(batch))
        result = found.leader.append(
            memoryview(batch), required_acks=-1, origin=Origin.COORDINATOR, token=token
        )
        return self._await_commit(found, result.first_offset, result.last_offset)

    def _await_commit(self, found: Partition, first_offset: int, last_offset: int) -> int | Awaitable[int]:
        if found.high_watermark > last_offset:
            return first_offset
        # A controller, where there is one, has removed a follower this slow from the in-sync set by then.
        seconds_max = self._commit_timeout_ms / 1000 + 2 * found.replica.context.lag_seconds_max
        return _when_committed(found, first_offset, last_offset, seconds_max=seconds_max)

    def begin_verification(
        self, partition: int, writer: TransactionalWriter, *, adds_partition: bool
    ) -> VerificationToken | None:
        """Raises as `append`."""
        leader = self._partitions.get(self._topic, partition).require_leader()
        return begin_verification(
            leader,
            writer.producer_id,
            writer.producer_epoch,
            first_sequence=-1,
            adds_partition=adds_partition,
        )

    def append_marker(
        self, partition: int, marker: Marker, *, transaction_version: int
    ) -> int | Awaitable[int]:
        """Raises InvalidProducerEpoch and TransactionCoordinatorFenced besides what `append` raises."""
        found = self._partitions.get(self._topic, partition)
        last_offset = append_marker(found.require_leader(), marker, transaction_version=transaction_version)
        return self._await_commit(found, last_offset, last_offset)

    def read(self, partition: int, offset: int, *, bytes_max: int) -> bytes | Awaitable[bytes]:
        """Raises OffsetOutOfRange, KafkaStorageError and what `append` raises for lookups."""
        log = self._partitions.get(self._topic, partition).log
        if offset == log.log_end_offset:
            return b""
        # Not as clients read, which get nothing above the high watermark: see `bounds`.
        found = log.read(offset, bytes_max=bytes_max, at_least_one_batch=True)
        data = found.read_cached()
        return asyncio.to_thread(found.read) if data is None else data

    def delete_records(self, partition: int, before_offset: int) -> None:
        """Followers delete it when they next fetch. Raises OffsetOutOfRange and what `append` raises for lookups."""
        self._partitions.get(self._topic, partition).require_leader().delete_records(before_offset)

    async def ensure_topic(self) -> None:
        await self._controller.ensure_topic(self._topic)


async def _when_committed(
    partition: Partition, first_offset: int, last_offset: int, *, seconds_max: float
) -> int:
    await partition.wait_until_committed(last_offset, seconds_max=seconds_max)
    return first_offset
