"""The offsets of a table's rows as spans: gaps and islands in Spark SQL, so that a driver sees spans and no rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions

from odradek_pipeline.audit.spans import Span
from odradek_pipeline.runs.ranges import PartitionKey


def join_offsets(offsets: DataFrame) -> DataFrame:
    """Rows of (topic, _topic_id, partition, offset), each once, as their spans."""
    keys = ("topic", "_topic_id", "partition")
    order = Window.partitionBy(*keys).orderBy("offset")
    return (
        offsets.withColumn("island", functions.col("offset") - functions.row_number().over(order))
        .groupBy(*keys, "island")
        .agg(functions.min("offset").alias("first"), functions.max("offset").alias("last"))
    )


def read_row_spans(rows: DataFrame) -> tuple[dict[PartitionKey, list[Span]], dict[PartitionKey, list[Span]]]:
    """The spans of a table's rows, and those of offsets that it has more than once."""
    counted = rows.groupBy("topic", "_topic_id", "partition", "offset").count()
    return _collect_spans(join_offsets(counted.drop("count"))), _collect_spans(
        join_offsets(counted.where("count > 1").drop("count"))
    )


def _collect_spans(frame: DataFrame) -> dict[PartitionKey, list[Span]]:
    found: dict[PartitionKey, list[Span]] = {}
    for one in frame.collect():
        key = PartitionKey(one.topic, one["_topic_id"], one.partition)
        found.setdefault(key, []).append((one["first"], one["last"] + 1))
    return found
