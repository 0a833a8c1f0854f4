"""Partitions read from offsets to their ends, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import AnswerTimeoutError

# A partition that sends nothing for so long although its end is known.
SILENCE_MS: Final = 60_000
Offsets = Mapping[TopicPartition, int]


async def list_edges(client: Client, keys: Iterable[TopicPartition]) -> tuple[Offsets, Offsets]:
    """The log starts, and the ends that a reader of committed records has. The ends are asked for first."""
    keys, logs = list(keys), LogAdmin(client)
    ends = await logs.offsets_at(keys, LATEST, read_committed=True)
    return await logs.offsets_at(keys, EARLIEST), ends


async def read_blocks(
    client: Client,
    starts: Offsets,
    ends: Offsets,
    take: Callable[[RecordBlock], None],
    *,
    is_read_committed: bool = True,
) -> None:
    """Call `take` with each block from `starts` to `ends`. The last one of a partition may go beyond its end.

    Raises AnswerTimeoutError for partitions that send nothing.
    """
    async with PartitionConsumer(client, is_read_committed=is_read_committed) as consumer:
        consumer.assign({key: start for key, start in starts.items() if start < ends[key]})
        before: list[tuple[TopicPartition, int]] = []
        while unread := [
            (key, offset) for key in consumer.assignment if (offset := consumer.position(key)) < ends[key]
        ]:
            if unread == before:
                raise AnswerTimeoutError(f"{unread[0][0]} sent nothing for {SILENCE_MS // 1000} s")
            blocks = await consumer.poll_blocks(timeout_ms=SILENCE_MS)
            before = [] if blocks else unread
            for block in blocks:
                take(block)
