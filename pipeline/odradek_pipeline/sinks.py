"""Where frames go: Parquet files that say where each record came from, and topics.

A topic is written at least once, as the connector does it: after a failure the last batch may be there twice. Rows
keyed by what they are about, with a value that stands for itself, come to the same when a reader keeps the last one.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek_pipeline.session import Connection

# As in the frame of a source: an output is read with it, so that an empty one has columns too.
FILE_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key string, value binary>>"
)
_FILE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def append_parquet(records: DataFrame, path: str) -> None:
    """Add records to the files at `path`. Each task's file appears whole or not at all."""
    records.select(*_FILE_COLUMNS).write.mode("append").parquet(path)


def written_parquet(spark: SparkSession, path: str) -> DataFrame | None:
    """What is at `path`; None when nothing is."""
    try:
        return spark.read.schema(FILE_SCHEMA).parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None


def stream_to_topic(
    rows: DataFrame, connection: Connection, topic: str, *, checkpoint: str, seconds: float | None
) -> StreamingQuery:
    """Start writing the columns `key` and `value` of a stream; only rows that changed are written.

    With `seconds` a batch begins that often and the query runs until it is stopped. Without, it ends after the
    records that were in the source when it began.
    """
    writer = rows.writeStream.format("kafka").options(**connection.for_writing()).option("topic", topic)
    writer = writer.outputMode("update").option("checkpointLocation", checkpoint)
    if seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(seconds * 1000)} milliseconds").start()
