"""Reads the end of an internal topic, as far as it reaches now: checkpoints, offset syncs and positions at a start."""

from __future__ import annotations

from collections.abc import AsyncIterator

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.ids import TopicPartition


async def tail(
    client: Client, topic: str, *, offsets_max: int | None = None
) -> AsyncIterator[list[ConsumerRecord]]:
    """The records of the last `offsets_max` offsets of each partition, or all, in parts. Raises UnknownTopicOrPartition
    and other errors.
    """
    described = await TopicAdmin(client).describe(topic)
    partitions = [TopicPartition(topic, one.partition) for one in described.partitions]
    logs = LogAdmin(client)
    begins = await logs.offsets_at(partitions, EARLIEST)
    ends = await logs.offsets_at(partitions, LATEST, read_committed=True)
    if offsets_max is not None:
        begins = {key: max(begin, ends[key] - offsets_max) for key, begin in begins.items()}
    async with PartitionConsumer(client, is_read_committed=True, on_out_of_range="earliest") as consumer:
        consumer.assign(begins)
        while any(consumer.position(key) < end for key, end in ends.items()):
            yield await consumer.poll(records_max=5_000)
