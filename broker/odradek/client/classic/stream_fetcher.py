"""Reads the partitions of one stream, and fills its buffer: one task, which waits while the buffer is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.client.classic.errors import OutOfRangeException
from odradek.client.classic.properties import Properties
from odradek.client.classic.streams import StreamBuffer
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.errors import ClientClosed
from odradek.foundation.errors import OdradekError, OffsetOutOfRange
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner

_RESETS: Final = {"smallest": "earliest", "largest": "latest", "error": "error"}
_POLL_MS: Final = 60_000


class StreamFetcher:
    """From these offsets on, until it is closed. An error that no retry mends is raised by the stream."""

    def __init__(
        self,
        client: Client,
        properties: Properties,
        buffer: StreamBuffer,
        starts: Mapping[TopicPartition, int],
    ) -> None:
        self._buffer = buffer
        self._generation = buffer.generation
        self._consumer = PartitionConsumer(
            client,
            bounds=FetchBounds(
                bytes_min=properties["fetch.min.bytes"],
                wait_ms_max=properties["fetch.wait.max.ms"],
                partition_bytes_max=properties["fetch.message.max.bytes"],
            ),
            on_out_of_range=_RESETS[properties["auto.offset.reset"]],
            is_waiting_for_topics=True,
        )
        self._consumer.assign(starts)
        self._tasks = TaskOwner("stream")
        self._tasks.start(self._read(), name="read")

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too."""
        consumer = self._consumer
        consumer.assign({key: consumer.position(key) for key in consumer.assignment} | dict(starts))

    async def _read(self) -> None:
        while True:
            await self._buffer.wait_for_room()
            try:
                blocks = await self._consumer.poll_blocks(timeout_ms=_POLL_MS)
            except ClientClosed:
                return
            except OffsetOutOfRange as failure:
                self._buffer.fail(OutOfRangeException(str(failure)))
                return
            except OdradekError as failure:
                self._buffer.fail(failure)
                return
            if self._generation != self._buffer.generation:
                return
            if blocks:
                keys = {block.topic_partition for block in blocks}
                self._buffer.end_offsets.update((key, self._consumer.high_watermark(key)) for key in keys)
                self._buffer.put(blocks, self._generation)

    async def close(self) -> None:
        """Stop reading."""
        await self._tasks.close()
        await self._consumer.close()
