"""The offsets topic in memory: appends that succeed at once, wait for a word, or fail; a crash loses
nothing flushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.foundation.errors import NotLeaderOrFollower
from odradek.foundation.ids import TopicPartition
from odradek.storage.producers import ProducerStates
from odradek.storage.verification import VerificationToken
from odradek.wire.records.batch import BatchView, assign
from odradek.wire.records.control import Marker, build_marker
from odradek.wire.records.record import records
from tests.support import compaction
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, open_log, stored_batches


class MemoryOffsetsLog:
    """An `OffsetsLog`. `fail_with` makes appends fail; `hold` makes them wait until `release`."""

    def __init__(self, partition_count: int = 2, *, exists: bool = True) -> None:
        self._count = partition_count
        self.exists = exists
        self.batches: dict[int, list[bytes]] = {partition: [] for partition in range(partition_count)}
        self.starts = dict.fromkeys(range(partition_count), 0)
        self.ends = dict.fromkeys(range(partition_count), 0)
        self.producers = {
            partition: ProducerStates(TopicPartition("offsets", partition))
            for partition in range(partition_count)
        }
        self.led = set(range(partition_count))
        self.epoch = 0
        self.uncommitted = 0  # records at the end that the replicas do not have
        self.fail_with: Exception | None = None
        self.is_held = False
        self.held: list[asyncio.Future[int]] = []
        self.appends = 0

    def partition_count(self) -> int:
        return self._count

    def list_led_partitions(self) -> Iterable[int]:
        return sorted(self.led) if self.exists else ()

    def is_ready(self, partition: int) -> bool:
        return self.exists and partition in self.led

    def get_led_since_epoch(self, partition: int) -> int:
        return self.epoch

    def bounds(self, partition: int) -> tuple[int, int]:
        return self.starts[partition], self.ends[partition]

    def is_committed(self, partition: int, end_offset: int) -> bool:
        if partition not in self.led:
            raise NotLeaderOrFollower(f"partition {partition} is not led here")
        return end_offset <= self.ends[partition] - self.uncommitted

    def append(
        self, partition: int, batch: bytearray, *, token: VerificationToken | None = None
    ) -> int | Awaitable[int]:
        if partition not in self.led:
            raise NotLeaderOrFollower(f"partition {partition} is not led here")
        if self.fail_with is not None:
            raise self.fail_with
        header = BatchView(memoryview(batch)).header
        producers = self.producers[partition]
        if header.producer_id >= 0 and not header.is_control:
            producers.check(header, is_client=False, token=token)
        self.appends += 1
        offset = self.ends[partition]
        assign(batch, 0, base_offset=offset, leader_epoch=self.epoch)
        self.batches[partition].append(bytes(batch))
        self.ends[partition] = BatchView(memoryview(batch)).last_offset + 1
        producers.replay(BatchView(memoryview(batch)), now_ms=0)
        if not self.is_held:
            return offset
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.held.append(future)
        return future

    def begin_verification(
        self, partition: int, writer: TransactionalWriter, *, adds_partition: bool
    ) -> VerificationToken | None:
        return self.producers[partition].begin_verification(
            writer.producer_id,
            writer.producer_epoch,
            first_sequence=-1,
            adds_partition=adds_partition,
            now_ms=0,
        )

    def append_marker(
        self, partition: int, marker: Marker, *, transaction_version: int
    ) -> int | Awaitable[int]:
        if not self.producers[partition].check_marker(marker, transaction_version=transaction_version):
            return self.ends[partition] - 1
        return self.append(partition, build_marker(**marker._asdict()))

    def release(self, error: Exception | None = None) -> None:
        """Complete the appends that wait."""
        self.is_held = False
        for future in self.held:
            if error is None:
                future.set_result(0)
            else:
                future.set_exception(error)
        self.held.clear()

    def read(self, partition: int, offset: int, *, bytes_max: int) -> bytes:
        found = [one for one in self.batches[partition] if BatchView(memoryview(one)).last_offset >= offset]
        if not found:
            return b""
        # As a log does: the bound may truncate the last batch, never the first.
        return b"".join(found)[: max(bytes_max, len(found[0]))]

    def delete_records(self, partition: int, before_offset: int) -> None:
        self.starts[partition] = before_offset
        self.batches[partition] = [
            one for one in self.batches[partition] if BatchView(memoryview(one)).last_offset >= before_offset
        ]

    def compact(self, partition: int = 0) -> None:
        """One round of the cleaner over all that is below the last stable offset."""
        disk, clock = SimulatedDisk(), StillClock()
        log = open_log(disk, clock=clock, config=compaction.CONFIG)
        for batch in self.batches[partition]:
            log.append_as_follower(memoryview(batch))
        log.roll()
        compaction.compact(log, clock=clock, disk=disk)
        self.batches[partition] = [
            bytes(batch.buffer[batch.position : batch.position + batch.size_bytes])
            for batch in stored_batches(log)
        ]
        assert log.log_end_offset == self.ends[partition]

    def newest_values(self, partition: int = 0) -> dict[bytes, bytes]:
        """What compaction would leave in the end: the last value by key, without the removed."""
        newest: dict[bytes, bytes | None] = {}
        for batch in self.batches[partition]:
            for record in records(BatchView(memoryview(batch))):
                assert record.key is not None
                newest[record.key] = record.value
        return {key: value for key, value in newest.items() if value is not None}

    async def ensure_topic(self) -> None:
        self.exists = True
