"""Records on their way: what was sent but not yet acknowledged, batch by batch and partition by partition.

A partition has at most one batch under way; behind it, full batches wait and the last one still takes records. So order
holds whatever is retried, and an idempotent producer needs no more: while one batch travels the next one grows, which
keeps throughput up without several in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

from odradek.foundation.ids import NO_PRODUCER_ID, TopicPartition
from odradek.records.batch import HEADER_BYTES, read_header, update_crc, write_header
from odradek.records.builder import RECORD_OVERHEAD_BYTES_MAX, BatchBuilder
from odradek.records.compression import Compression


class RecordMetadata(NamedTuple):
    """Where a record came to lie. `offset` is -1 without acknowledgements; `timestamp_ms` as stored."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerIdentity(NamedTuple):
    """Id and epoch that the broker knows an idempotent producer by."""

    id: int
    epoch: int


NO_IDENTITY = ProducerIdentity(NO_PRODUCER_ID, -1)


class PendingBatch:
    """One batch from its first record to its acknowledgement.

    `done` ends with (base offset, log append time or -1), or with the error that it failed for good with.
    """

    __slots__ = (
        "attempts",
        "builder",
        "created_at",
        "data",
        "done",
        "identity",
        "retry_at",
        "sequence",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, now: float) -> None:
        self.topic_partition = topic_partition
        self.builder = BatchBuilder()
        self.created_at = now
        self.retry_at = 0.0
        self.attempts = 0
        self.data: bytearray | None = None
        self.identity = NO_IDENTITY
        self.sequence = -1
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_look_at_failure)

    @property
    def payload_bytes(self) -> int:
        """What its records take, uncompressed."""
        return self.builder.payload_bytes

    def has_room(self, size_bytes: int, *, batch_bytes_max: int) -> bool:
        """Whether a record of `size_bytes` fits; an empty batch takes any."""
        return len(self.builder) == 0 or self.payload_bytes + size_bytes + HEADER_BYTES <= batch_bytes_max

    def seal(self, *, compression: Compression, identity: ProducerIdentity, sequence: int) -> None:
        """Write the batch's bytes, or only its producer fields when they are written already."""
        self.identity = identity
        self.sequence = sequence
        if self.data is None:
            self.data = self.builder.build(
                compression=compression,
                producer_id=identity.id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
            )
            return
        header = read_header(self.data)._replace(
            producer_id=identity.id, producer_epoch=identity.epoch, base_sequence=sequence
        )
        write_header(self.data, 0, header)
        update_crc(self.data)


def _look_at_failure(done: asyncio.Future[tuple[int, int]]) -> None:
    # The producer reports failures by itself (`Producer.flush`); nobody need await each record for them.
    if not done.cancelled():
        done.exception()


class Delivery:
    """Await it for the record's RecordMetadata, or the error that it could not be written for."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: PendingBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def is_done(self) -> bool:
        """Whether awaiting it would not wait."""
        return self._batch.done.done()

    async def _result(self) -> RecordMetadata:
        base_offset, append_time_ms = await asyncio.shield(self._batch.done)
        topic, partition = self._batch.topic_partition
        offset = -1 if base_offset < 0 else base_offset + self._index
        return RecordMetadata(
            topic, partition, offset, self._timestamp_ms if append_time_ms < 0 else append_time_ms
        )

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._result().__await__()


class PartitionQueue:
    """The batches of one partition, oldest first; the last one takes records until it is full or sent."""

    __slots__ = ("batches", "in_flight", "next_sequence", "sequence_identity", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[PendingBatch] = deque()
        self.in_flight: PendingBatch | None = None
        self.next_sequence = 0
        self.sequence_identity = NO_IDENTITY

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        *,
        now: float,
        batch_bytes_max: int,
    ) -> tuple[Delivery, bool, int]:
        """Add a record: (its delivery, whether a batch became full by it, the bytes it takes)."""
        size_bytes = record_bytes(key, value, headers)
        is_full = False
        if not self.batches or self.batches[-1].data is not None:
            self.batches.append(PendingBatch(self.topic_partition, now=now))
        elif not self.batches[-1].has_room(size_bytes, batch_bytes_max=batch_bytes_max):
            self.batches.append(PendingBatch(self.topic_partition, now=now))
            is_full = True
        batch = self.batches[-1]
        before = batch.payload_bytes
        index = batch.builder.append(timestamp_ms, key, value, headers)
        return Delivery(batch, index, timestamp_ms), is_full, batch.payload_bytes - before

    def due_at(self, *, linger_seconds: float, batch_bytes_max: int) -> float | None:
        """When the first batch may leave, by the loop's clock; None when nothing waits or one is under way."""
        if self.in_flight is not None or not self.batches:
            return None
        first = self.batches[0]
        if first.attempts:
            return first.retry_at
        full = len(self.batches) > 1 or first.payload_bytes + HEADER_BYTES >= batch_bytes_max
        return first.created_at if full else first.created_at + linger_seconds


def record_bytes(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> int:
    """An upper bound of what a record takes in a batch, uncompressed."""
    size = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size
