"""The columns of loaded records, and frames to frames: where a row is from stands in the row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StructField, StructType

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
    """Rows with the id of their topic and of the run that reads them: the columns of `SCHEMA`, then all others."""
    more = [name for name in rows.columns if name not in READ_COLUMNS]
    return rows.select(
        *READ_COLUMNS, _topic_id_of(ranges).alias(TOPIC_ID), functions.lit(run).alias(RUN), *more
    )


def schema_with(columns: Sequence[Mapping[str, Any]]) -> StructType:
    """The columns of a table: those of `SCHEMA`, then the decoded ones of its newest record."""
    own = StructType.fromDDL(SCHEMA)
    assert isinstance(own, StructType)
    return StructType([*own.fields, *map(_field, columns)])


def align_columns(rows: DataFrame, columns: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Exactly the columns of the table; what a frame does not have is null."""
    there = {name.lower() for name in rows.columns}
    decoded = [
        functions.col(f"`{one.name}`")
        if one.name.lower() in there
        else functions.lit(None).cast(one.dataType).alias(one.name)
        for one in map(_field, columns)
    ]
    return rows.select(*COLUMNS, *decoded)


def _field(row: Mapping[str, Any]) -> StructField:
    return StructField.fromJson(dict(row))


def _topic_id_of(ranges: Iterable[OffsetRange]) -> Column:
    ids = {one.key.topic: one.key.topic_id for one in ranges}
    if len(ids) == 1:
        return functions.lit(*ids.values())
    chosen = functions.lit(None).cast("string")
    for topic, topic_id in sorted(ids.items()):
        chosen = functions.when(functions.col("topic") == topic, functions.lit(topic_id)).otherwise(chosen)
    return chosen


def no_rows(spark: SparkSession, columns: Sequence[Mapping[str, Any]] = ()) -> DataFrame:
    """A frame with the columns of a table and no row."""
    return spark.createDataFrame([], schema_with(columns))


def is_in(ranges: Iterable[OffsetRange]) -> str:
    """SQL that is true for the rows of any of `ranges`, of the topic with the same id."""
    conditions = [
        f"(topic = '{one.key.topic}' and {TOPIC_ID} = '{one.key.topic_id}' and partition = {one.key.partition} "
        f"and offset >= {one.start} and offset < {one.end})"
        for one in ranges
    ]
    return " or ".join(conditions) or "false"
