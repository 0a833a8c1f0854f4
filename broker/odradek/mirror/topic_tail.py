"""Reads the end of a topic of one partition, as far as it reaches now: checkpoints and offset syncs at a start."""

from __future__ import annotations

from collections.abc import AsyncIterator

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.ids import TopicPartition


async def tail(client: Client, topic: str, *, offsets_max: int) -> AsyncIterator[list[ConsumerRecord]]:
    """The records of the last `offsets_max` offsets, in parts. Raises UnknownTopicOrPartition and other errors."""
    partition = TopicPartition(topic, 0)
    logs = LogAdmin(client)
    begin = (await logs.offsets_at([partition], EARLIEST))[partition]
    end = (await logs.offsets_at([partition], LATEST, read_committed=True))[partition]
    begin = max(begin, end - offsets_max)
    async with PartitionConsumer(client, is_read_committed=True, on_out_of_range="earliest") as consumer:
        consumer.assign({partition: begin})
        while consumer.position(partition) < end:
            yield await consumer.poll(records_max=5_000)
