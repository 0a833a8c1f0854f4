"""Transactions that hang: open in a partition, and unknown to every coordinator.

Verification (KIP-890) lets none come about. So it is switched off while they are written, as on Kafka before 3.6. Its
directories may bring such transactions along.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from odradek import Client
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch

_VERIFICATION = "transaction.partition.verification.enable"
_CLUSTER_WIDE = ""
_PRODUCE_VERSION = 11  # the last one that does not add partitions to a transaction
HOUR_MS = 3_600_000


def leave_hanging(bootstrap: str, producers: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Open a transaction in each partition by one record of an hour ago; `producers` are producer ids and epochs."""
    asyncio.run(_leave_hanging(bootstrap, producers))


async def _leave_hanging(bootstrap: str, producers: Mapping[TopicPartition, tuple[int, int]]) -> None:
    async with Client(bootstrap) as client:
        configs = ConfigAdmin(client)

        async def verify(text: str) -> None:
            await configs.alter(ResourceType.BROKER, _CLUSTER_WIDE, [ConfigChange(_VERIFICATION, text)])

        await verify("false")
        try:
            for partition, (producer_id, epoch) in producers.items():
                await _write(client, partition, producer_id=producer_id, epoch=epoch)
        finally:
            await verify("true")


async def _write(client: Client, partition: TopicPartition, *, producer_id: int, epoch: int) -> None:
    hour_ago_ms = round(time.time() * 1000) - HOUR_MS
    records = build_batch(
        [(hour_ago_ms, None, b"hanging")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    (leader,) = await client.leaders([partition])
    answer = await (await client.broker(leader)).request(
        ApiKey.PRODUCE,
        versions=(_PRODUCE_VERSION, _PRODUCE_VERSION),
        transactional_id="forgotten",
        acks=-1,
        timeout=10_000,
        topic_data=[
            {
                "name": partition.topic,
                "partition_data": [{"index": partition.partition, "records": bytes(records)}],
            }
        ],
    )
    (row,) = answer.responses[0].partition_responses
    assert row.error_code == 0, row
