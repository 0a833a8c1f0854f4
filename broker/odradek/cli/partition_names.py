"""Partitions as people name them: `orders` for all of a topic, `orders:0,2-3` for some."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.options import parse_partitions
from odradek.client.client import Client
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition


async def named_partitions(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC[:PARTITIONS]` texts name, each once.

    Raises UnknownTopicOrPartition, click.BadParameter for numbers that are none.
    """
    keys: dict[TopicPartition, None] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        known = [p.partition for p in (await client.refresh((name,))).topic(name).partitions]
        for number in parse_partitions(numbers) if colon else known:
            if number not in known:
                raise UnknownTopicOrPartition(
                    f"topic {name!r} has no partition {number}; it has {len(known)}, numbered from 0"
                )
            keys[TopicPartition(name, number)] = None
    return list(keys)
