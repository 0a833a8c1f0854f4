"""From a position in a log, as a resource names it, to the request to the brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import GroupsSeen
from odradek_operator.resources.group_positions import GroupPosition, ResetPosition

Table = Mapping[str, Mapping[str, int]]


def time_of(position: GroupPosition | ResetPosition, now: datetime) -> int:
    """The time in milliseconds that a position stands for, or a special value of ListOffsets.

    Raises ValueError for a timestamp that is none, and for one that is missing.
    """
    match str(position.at):
        case "Earliest":
            return EARLIEST
        case "Latest":
            return LATEST
        case "Timestamp":
            if position.timestamp is None:
                raise ValueError("at: Timestamp needs timestamp, as 2026-01-31T12:00:00Z")
            moment = datetime.fromisoformat(position.timestamp)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return max(0, round(moment.timestamp() * 1000))
        case "Duration":
            if position.duration is None:
                raise ValueError("at: Duration needs duration, as 2h")
            return max(0, round(now.timestamp() * 1000) - position.duration)
    raise ValueError(f"{position.at} is not a place in a log")


def partitions_of(topics: Iterable[str], seen: GroupsSeen) -> list[TopicPartition]:
    """All partitions of the topics that are there."""
    return [TopicPartition(topic, number) for topic in topics for number in seen.partitions.get(topic, ())]


def missing_topics(topics: Iterable[str], seen: GroupsSeen) -> list[str]:
    """Those of the topics that are not there."""
    return [topic for topic in topics if not seen.partitions.get(topic)]


def table_of(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as a status keeps them."""
    table: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        table.setdefault(topic, {})[str(partition)] = offset
    return table


def offsets_of(table: Table) -> dict[TopicPartition, int]:
    """The opposite of `table_of`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, rows in table.items()
        for partition, offset in rows.items()
        if partition.isdecimal()
    }
