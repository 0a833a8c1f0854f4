"""A task reads one range of offsets and yields Arrow batches. Here memory is bounded: two fetches and one Arrow batch.

The range ends when the position passes its end. Its last offsets may have no record: markers of transactions, records
of aborted ones, compacted ones. A position that stays where it is for too long is an error and not an end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from odradek.client.admin.logs import EARLIEST, LogAdmin
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.foundation.errors import OffsetOutOfRange, UnknownTopicOrPartition
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.settings.options import Options
from odradek_pipeline.source.arrow import record_batch
from odradek_pipeline.source.ranges import OffsetInputPartition
from odradek_pipeline.source.topics import report

_WAIT_MS_MAX = 500
# Arrow counts the bytes of a column in 32 bits.
_ARROW_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of a task's read. A batch of Arrow is sent at `rows` rows or at `size_bytes` bytes of records."""

    rows: int
    size_bytes: int
    fetch_bytes: int
    poll_timeout_seconds: float
    is_read_committed: bool
    is_failing_on_loss: bool
    with_headers: bool

    @classmethod
    def of(cls, options: Options) -> ReadSettings:
        """Raises OptionError."""
        return cls(
            rows=options["arrowBatchRows"],
            size_bytes=min(options["arrowBatchBytes"], _ARROW_BYTES_MAX),
            fetch_bytes=options["max.partition.fetch.bytes"],
            poll_timeout_seconds=options["pollTimeoutMs"] / 1000,
            is_read_committed=options["isolation.level"] == "read_committed",
            is_failing_on_loss=options["failOnDataLoss"],
            with_headers=options["includeHeaders"],
        )


def read(wanted: OffsetInputPartition, options: Options) -> Iterator[pa.RecordBatch]:
    """The records of one range. Raises DataLossError, CorruptRecord, and the client's errors."""
    settings = ReadSettings.of(options)
    with ClientLoop(options) as loop:
        reading = _Reading(loop, wanted, settings)
        loop.run(reading.start())
        try:
            yield from reading.read_batches()
        finally:
            loop.run(reading.consumer.close())


class _Reading:
    """One range under way. `batches` is for the caller's thread, what is async for the loop's."""

    def __init__(self, loop: ClientLoop, wanted: OffsetInputPartition, settings: ReadSettings) -> None:
        self._loop = loop
        self._range = wanted
        self._settings = settings

    async def start(self) -> None:
        """Check that the topic is the one that was planned, and begin to fetch."""
        client, wanted = self._loop.client, self._range
        cluster = await client.with_retries(lambda: client.topics((wanted.topic,)))
        topic_id = str(cluster.topic(wanted.topic).id)
        self._is_other_topic = topic_id != wanted.topic_id
        if self._is_other_topic:
            what = f"topic {wanted.topic!r} was deleted and created again while {wanted} was read"
            report("recreated", what, is_failing=self._settings.is_failing_on_loss)
        bounds = FetchBounds(
            wait_ms_max=_WAIT_MS_MAX,
            bytes_max=self._settings.fetch_bytes,
            partition_bytes_max=self._settings.fetch_bytes,
        )
        self.consumer = PartitionConsumer(
            client,
            bounds=bounds,
            is_read_committed=self._settings.is_read_committed,
            on_out_of_range="error",
        )
        self.consumer.assign({wanted.key: wanted.start})

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches, each of many of Kafka's batches."""
        if self._is_other_topic:
            return
        held: list[RecordBlock] = []
        rows = size_bytes = 0
        for block in self._read_blocks():
            held.append(block)
            # A batch of Kafka's is split only at the edges of the range, so its header's count is near enough.
            rows += block.header.record_count
            size_bytes += len(block.payload())
            if rows >= self._settings.rows or size_bytes >= self._settings.size_bytes:
                yield record_batch(held, with_headers=self._settings.with_headers)
                held, rows, size_bytes = [], 0, 0
        if held:
            yield record_batch(held, with_headers=self._settings.with_headers)

    def _read_blocks(self) -> Iterator[RecordBlock]:
        start, end = self._range.start, self._range.end
        position = start
        moved_at = time.monotonic()
        while position < end:
            blocks, reached = self._loop.run(self._poll())
            for block in blocks:
                if block.first_offset < end:
                    yield block.between(start, end)
            now = time.monotonic()
            if reached > position:
                position, moved_at = reached, now
            elif now - moved_at > self._settings.poll_timeout_seconds:
                raise TimeoutError(
                    f"{self._range.key} sent nothing from offset {position} on for "
                    f"{self._settings.poll_timeout_seconds:g} s, and {self._range} was to be read; "
                    "are its leader and the network well? 'pollTimeoutMs' allows more"
                )

    async def _poll(self) -> tuple[list[RecordBlock], int]:
        key = self._range.key
        try:
            blocks = await self.consumer.poll_blocks(timeout_ms=_WAIT_MS_MAX)
        except OffsetOutOfRange as failure:
            what = f"{key} no longer has offset {self.consumer.position(key)} of {self._range}"
            report("truncated", f"{what} ({failure})", is_failing=self._settings.is_failing_on_loss)
            return [], await self._skip_gap()
        except UnknownTopicOrPartition as failure:
            report("deleted", str(failure), is_failing=self._settings.is_failing_on_loss)
            return [], self._range.end
        return blocks, self.consumer.position(key)

    async def _skip_gap(self) -> int:
        key = self._range.key
        first = (await LogAdmin(self._loop.client).offsets_at([key], EARLIEST))[key]
        if first <= self.consumer.position(key):
            return self._range.end  # it is the log's end that went back
        self.consumer.seek(key, first)
        return first
