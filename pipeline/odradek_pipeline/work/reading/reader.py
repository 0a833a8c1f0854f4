"""The protocol of a reader: a way to read ranges of offsets with Spark. Nothing else here knows connectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.connection.session import SparkConnection
from odradek_pipeline.runs.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`records_per_task` splits a large partition: no task gets a longer span of offsets."""

    is_read_committed: bool
    records_per_task: int


class Reader(Protocol):
    """Reads exactly the ranges that it is given, or fails: what the log no longer has is an error, never a gap."""

    def read_frame(
        self,
        spark: SparkSession,
        connection: SparkConnection,
        ranges: Sequence[OffsetRange],
        options: ReadOptions,
    ) -> DataFrame:
        """The rows of `ranges`, with the columns `records.READ_COLUMNS`; no task reads two partitions."""
        ...


def split_layers(ranges: Sequence[OffsetRange]) -> list[list[OffsetRange]]:
    """`ranges` in lists that have each partition once, for connectors that take one range of a partition."""
    made: list[list[OffsetRange]] = []
    seen: dict[object, int] = {}
    for one in sorted(ranges):
        turn = seen.get(one.key, 0)
        seen[one.key] = turn + 1
        if turn == len(made):
            made.append([])
        made[turn].append(one)
    return made


def range_options(ranges: Sequence[OffsetRange], options: ReadOptions) -> dict[str, str]:
    """The options of both connectors for ranges that have each partition once.

    Partitions are assigned, never subscribed to: a source would refuse a plan that lacks a partition which joined the
    topic since. A source fails where records are gone.
    """
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for one in ranges:
        topic, partition = one.key.topic, one.key.partition
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = one.start
        ends.setdefault(topic, {})[str(partition)] = one.end
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(options.records_per_task),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
