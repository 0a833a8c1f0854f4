"""The records of a topic's log, counted by window: the tier `stored`, and on another cluster the tier `mirrored`.

Committed records alone count. A collection continues where the last one ended, so each record is read once.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.admin.admin import Admin
from odradek.client.audit.counts import Counts, digest, window_start
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.results import ResourceType
from odradek.wire.records.batch import TimestampType
from odradek_pipeline.audit.collecting.blocks import list_edges, read_blocks
from odradek_pipeline.audit.facts import WindowOfPartition
from odradek_pipeline.audit.state import TierState
from odradek_pipeline.errors import JobRefusedError


async def require_countable(client: Client, topic: str) -> None:
    """Raises JobRefusedError for a topic that brokers stamp or compact: its counts would say nothing."""
    keys = ["message.timestamp.type", "cleanup.policy"]
    found = await Admin(client).configs.describe(ResourceType.TOPIC, topic, keys=keys)
    values = {entry.name: entry.value or "" for entry in found}
    if values.get("message.timestamp.type") == "LogAppendTime":
        raise JobRefusedError(
            f"topic {topic!r} has LogAppendTime: each broker stamps its own times, so windows of producers and tiers "
            "have nothing in common. Set message.timestamp.type=CreateTime"
        )
    if "compact" in values.get("cleanup.policy", ""):
        raise JobRefusedError(
            f"topic {topic!r} is compacted, so its counts show loss and compaction alike. "
            "`odradek-pipeline audit tiles` compares a table with it by offsets"
        )


async def count_log(client: Client, tier: TierState, window_ms: int, notice: Callable[[str], None]) -> int:
    """Add to `tier` what its log has beyond its positions. Returns how many records that were.

    Raises JobRefusedError for a record that a broker stamped.
    """
    keys = (await client.topics((tier.topic,))).partitions(tier.topic)
    starts, ends = await list_edges(client, keys)
    offsets = {}
    for key in keys:
        position = tier.positions.get(key.partition, starts[key])
        if position < starts[key]:
            notice(f"{key}: offsets {position} to {starts[key]} were removed before they were counted")
        offsets[key] = max(position, starts[key])
    count = 0

    def take(block: RecordBlock) -> None:
        nonlocal count
        count += _count(tier, block.between(0, ends[block.topic_partition]), window_ms)

    await read_blocks(client, offsets, ends, take)
    for key in keys:
        tier.positions[key.partition] = max(ends[key], offsets[key])
    return count


def _count(tier: TierState, block: RecordBlock, window_ms: int) -> int:
    if block.header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        raise JobRefusedError(
            f"{block.topic_partition} has records of LogAppendTime at offset {block.first_offset}: its windows say "
            "nothing about producers. Name a later --since, or audit another topic"
        )
    partition = block.topic_partition.partition
    records = block.records()
    for offset, timestamp_ms, key, value, headers in records:
        at = WindowOfPartition(partition, window_start(timestamp_ms, window_ms))
        counts = tier.counts.get(at)
        if counts is None:
            counts = tier.counts[at] = Counts()
        counts.add(len(key or b"") + len(value or b""), digest(timestamp_ms, key, value, headers), offset)
        tier.high_time_ms = max(tier.high_time_ms, timestamp_ms)
    return len(records)
