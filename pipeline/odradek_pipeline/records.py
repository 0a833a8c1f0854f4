"""The columns of loaded records, and frames to frames: where a row is from stands in the row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, functions

from odradek_pipeline.runs.ranges import OffsetRange

# What a reader returns, in this order.
READ_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
TOPIC_ID: Final = "_topic_id"
RUN: Final = "_run"
COLUMNS: Final = (*READ_COLUMNS, TOPIC_ID, RUN)
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key string, value binary>>, _topic_id string, _run string"
)


def with_origin(rows: DataFrame, ranges: Iterable[OffsetRange], run: str) -> DataFrame:
    """Rows with the id of their topic and of the run that reads them: the columns of `SCHEMA`."""
    return rows.select(*READ_COLUMNS, _topic_id_of(ranges).alias(TOPIC_ID), functions.lit(run).alias(RUN))


def _topic_id_of(ranges: Iterable[OffsetRange]) -> Column:
    ids = {one.key.topic: one.key.topic_id for one in ranges}
    if len(ids) == 1:
        return functions.lit(*ids.values())
    chosen = functions.lit(None).cast("string")
    for topic, topic_id in sorted(ids.items()):
        chosen = functions.when(functions.col("topic") == topic, functions.lit(topic_id)).otherwise(chosen)
    return chosen


def no_rows(spark: SparkSession) -> DataFrame:
    """A frame with the columns of `SCHEMA` and no row."""
    return spark.createDataFrame([], SCHEMA)


def is_in(ranges: Iterable[OffsetRange]) -> str:
    """SQL that is true for the rows of any of `ranges`, of the topic with the same id."""
    conditions = [
        f"(topic = '{one.key.topic}' and {TOPIC_ID} = '{one.key.topic_id}' and partition = {one.key.partition} "
        f"and offset >= {one.start} and offset < {one.end})"
        for one in ranges
    ]
    return " or ".join(conditions) or "false"
