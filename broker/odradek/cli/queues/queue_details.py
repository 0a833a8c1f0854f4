"""What `odradek queues` asks: where queues are, their members, and the records that come next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.results import ResourceType
from odradek.foundation.ids import TopicPartition

# Each queue takes some requests; a few at a time keep their order and the brokers' work small.
_ASKED_AT_ONCE: Final = 8
_SETTINGS: Final = "share."
_PEEK_WAIT_MS: Final = 5_000
_PEEK_BYTES: Final = 1024 * 1024


async def describe_queues(client: Client, group_ids: Sequence[str]) -> list[dict[str, object]]:
    """Documents of these queues, or of all. Raises GroupIdNotFound."""
    queues = QueueAdmin(client)
    names = list(dict.fromkeys(group_ids)) or [one.group_id for one in await queues.list()]
    turns = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def ask(name: str) -> dict[str, object]:
        async with turns:
            return await _describe(client, name)

    return list(await asyncio.gather(*(ask(name) for name in names)))


async def _describe(client: Client, group_id: str) -> dict[str, object]:
    queues = QueueAdmin(client)
    described = await queues.describe(group_id)
    offsets = await queues.offsets(group_id)
    settings = await ConfigAdmin(client).describe(ResourceType.GROUP, group_id)
    lags = [one.lag for one in offsets.values()]
    return {
        "queue": group_id,
        "state": described.state,
        "coordinator": described.coordinator,
        "assignor": described.assignor,
        "epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "lag": None if None in lags else sum(lag or 0 for lag in lags),
        "members": [
            {
                "member_id": one.member_id,
                "client_id": one.client_id,
                "client_host": one.client_host,
                "epoch": one.epoch,
                "topics": list(one.topics),
                "assignment": [str(key) for key in one.assignment],
            }
            for one in described.members
        ],
        "partitions": [
            {"topic": key.topic, "partition": key.partition, "start": one.start, "lag": one.lag}
            for key, one in offsets.items()
        ],
        "settings": {one.name: one.value for one in settings if one.name.startswith(_SETTINGS)},
    }


async def peek_records(
    client: Client, group_id: str, topics: Sequence[str] | None, *, records_max: int
) -> list[ConsumerRecord]:
    """The first records from where the queue is, of each partition. No lock is taken.

    Raises GroupIdNotFound, UnknownTopicOrPartition.
    """
    await QueueAdmin(client).describe(group_id)
    offsets = await QueueAdmin(client).offsets(group_id, topics)
    left = {key: one.start for key, one in offsets.items() if one.lag != 0}
    found: dict[TopicPartition, list[ConsumerRecord]] = {key: [] for key in left}
    consumer = PartitionConsumer(
        client, bounds=FetchBounds(partition_bytes_max=_PEEK_BYTES), on_out_of_range="earliest"
    )
    try:
        consumer.assign(left)
        deadline = asyncio.get_running_loop().time() + _PEEK_WAIT_MS / 1000
        while left and asyncio.get_running_loop().time() < deadline:
            for record in await consumer.poll(timeout_ms=500):
                key = TopicPartition(record.topic, record.partition)
                if key in left and len(found[key]) < records_max:
                    found[key].append(record)
            done = {
                key
                for key in left
                if len(found[key]) >= records_max
                or 0 <= consumer.high_watermark(key) <= consumer.position(key)
            }
            if done:
                left = {key: consumer.position(key) for key in left if key not in done}
                consumer.assign(left)
    finally:
        await consumer.close()
    return [record for key in sorted(found) for record in found[key]]
