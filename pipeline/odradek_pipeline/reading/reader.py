"""The protocol of a reader: a way to read ranges of offsets with Spark. Nothing else here knows connectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.session import SparkConnection


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
