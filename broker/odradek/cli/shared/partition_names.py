"""Partitions as people name them: `orders` for all of a topic, `orders:0,2-3` for some."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.shared.options import parse_partitions
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition


async def find_named_partitions(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC[:PARTITIONS]` texts name, each once, by one request. Raises UnknownTopicOrPartition,
    and click.BadParameter for a wrong number.
    """
    wanted: list[tuple[str, tuple[int, ...] | None]] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        wanted.append((topic, parse_partitions(numbers) if colon else None))
    topics = sorted({topic for topic, _ in wanted})
    cluster = await client.with_retries(lambda: client.refresh(topics))
    return list(dict.fromkeys(key for topic, numbers in wanted for key in cluster.partitions(topic, numbers)))
