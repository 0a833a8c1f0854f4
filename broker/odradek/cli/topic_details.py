"""What `topics describe` shows, gathered from metadata, offsets and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.results import ConfigSource, ResourceType
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo
from odradek.foundation.ids import TopicPartition


async def describe_topics(
    client: Client, names: Sequence[str], *, with_offsets: bool, with_configs: bool
) -> list[dict[str, Any]]:
    """One object per topic. Raises UnknownTopicOrPartition for a name that is not there."""
    admin = TopicAdmin(client)
    found = [await admin.describe(name) for name in names] if names else await admin.list()
    described = [await _describe(client, topic, with_offsets, with_configs) for topic in found]
    warnings = await ConfigAdmin(client).topic_warnings([topic.name for topic in found])
    for topic in described:
        topic["warnings"] = [warnings[topic["name"]]] if topic["name"] in warnings else []
    return described


async def _describe(
    client: Client, topic: TopicInfo, with_offsets: bool, with_configs: bool
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": topic.name,
        "id": str(topic.id),
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "in_sync_replicas": list(partition.in_sync_replicas),
            }
            for partition in topic.partitions
        ],
    }
    if with_configs:
        entries = await ConfigAdmin(client).describe(ResourceType.TOPIC, topic.name)
        described["configs"] = {
            entry.name: entry.value for entry in entries if entry.source is ConfigSource.TOPIC
        }
    if with_offsets:
        logs = LogAdmin(client)
        keys = [TopicPartition(topic.name, partition.partition) for partition in topic.partitions]
        first = await logs.list_offsets(dict.fromkeys(keys, EARLIEST))
        end = await logs.list_offsets(dict.fromkeys(keys, LATEST))
        for row, key in zip(described["partitions"], keys, strict=True):
            row["first_offset"] = first[key].offset
            row["next_offset"] = end[key].offset
    return described
