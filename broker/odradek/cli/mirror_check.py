"""`odradek mirror --check`: the clusters are reached, and the topics are printed. Nothing is written to either."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from odradek.mirror.mirror import Mirror
from odradek.mirror.settings import MirrorSettings

if TYPE_CHECKING:
    from odradek.mirror.topic_sync import MirroredTopic


def check_mirror(settings: MirrorSettings) -> int:
    """Print the plan. Raises what keeps a cluster from being reached, and MirrorRefused for a loop."""
    for label, topics in asyncio.run(_plan(settings)).items():
        click.echo("\n".join(_lines(settings, label, topics)))
    return 0


async def _plan(settings: MirrorSettings) -> dict[str, list[MirroredTopic]]:
    return await Mirror(settings).plan()


def _lines(settings: MirrorSettings, label: str, topics: list[MirroredTopic]) -> list[str]:
    flow = next(one for one in settings.flows if one.label == label)
    guarantee = "exactly once" if flow.is_exactly_once else "at least once"
    partitions = sum(topic.partitions for topic in topics)
    return [
        f"{label}: {len(topics)} topics with {partitions} partitions, {guarantee}, positions in group "
        f"{settings.group_id(flow)}",
        *(f"  {topic.source} -> {topic.target} ({topic.partitions} partitions)" for topic in topics),
    ]
