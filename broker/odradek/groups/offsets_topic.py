"""The offsets topic of a running broker: `OffsetsLog` over the partitions that this broker leads.

With one replica an append is committed when it returns, or with flush.messages when it is flushed. What is not in
the page cache is read in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from odradek.cluster.image import ImageHolder, TopicImage
from odradek.log.log import AppendResult, Origin
from odradek.protocol.group_partitions import OFFSETS_TOPIC
from odradek.replication.flushing import Flusher
from odradek.replication.partition import Partition
from odradek.replication.partitions import Partitions


class TopicMaker(Protocol):
    """The controller, here or elsewhere."""

    async def ensure_topic(self, name: str) -> TopicImage: ...


class PartitionsOffsetsLog:
    """An `OffsetsLog`. `settings` are the broker's."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        images: ImageHolder,
        controller: TopicMaker,
        flusher: Flusher,
        settings: Any,
    ) -> None:
        self._partitions = partitions
        self._images = images
        self._controller = controller
        self._flusher = flusher
        self._settings = settings

    def partition_count(self) -> int:
        topic = self._images.current.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        count: int = self._settings.offsets_topic_num_partitions
        return count

    def led_partitions(self) -> Iterable[int]:
        topic = self._images.current.topics.get(OFFSETS_TOPIC)
        count = 0 if topic is None else len(topic.partitions)
        return [partition for partition in range(count) if self.is_ready(partition)]

    def is_ready(self, partition: int) -> bool:
        found = self._partitions.find(OFFSETS_TOPIC, partition)
        return found is not None and (found.refusal is not None or found.is_confirmed)

    def led_since_epoch(self, partition: int) -> int:
        return self._partitions.get(OFFSETS_TOPIC, partition).led_since_epoch

    def bounds(self, partition: int) -> tuple[int, int]:
        found = self._partitions.get(OFFSETS_TOPIC, partition)
        # To the log's end, as Kafka does: the high watermark that a new leader knows may be old, and what lies above
        # it was acknowledged, or will be.
        return found.log.log_start_offset, found.log.log_end_offset

    def size_bytes(self, partition: int) -> int:
        return int(self._partitions.get(OFFSETS_TOPIC, partition).log.size_bytes)

    def append(self, partition: int, batch: bytearray) -> int | Awaitable[int]:
        """Raises UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError, RequestTimedOut, what logs raise."""
        found = self._partitions.get(OFFSETS_TOPIC, partition)
        result = found.append_as_leader(memoryview(batch), required_acks=-1, origin=Origin.COORDINATOR)
        if found.high_watermark > result.last_offset:
            return result.first_offset
        # A follower that takes this long is out of the in-sync set by now, where there is a controller to put it out.
        patience = self._settings.offsets_commit_timeout_ms / 1000 + 2 * found.context.lag_seconds_max
        return _when_committed(found, result, seconds_max=patience)

    def read(self, partition: int, offset: int, *, bytes_max: int) -> bytes | Awaitable[bytes]:
        """Raises OffsetOutOfRange, KafkaStorageError and what `append` raises for lookups."""
        log = self._partitions.get(OFFSETS_TOPIC, partition).log
        if offset == log.log_end_offset:
            return b""
        # Not as clients read, who are shown nothing above the high watermark: see `bounds`.
        found = log.read(offset, bytes_max=bytes_max, at_least_one_batch=True)
        data = found.read_cached()
        return asyncio.to_thread(found.read) if data is None else data

    async def flush(self, partition: int) -> None:
        await self._flusher.flush(self._partitions.get(OFFSETS_TOPIC, partition).log)

    def advance_start(self, partition: int, offset: int) -> None:
        # Not `delete_records`, which is for clients and refuses compacted topics.
        self._partitions.get(OFFSETS_TOPIC, partition).advance_log_start(offset)

    async def ensure_topic(self) -> None:
        await self._controller.ensure_topic(OFFSETS_TOPIC)


async def _when_committed(partition: Partition, result: AppendResult, *, seconds_max: float) -> int:
    await partition.committed(result.last_offset, seconds_max=seconds_max)
    return result.first_offset
