"""Frames of a topic's records: the connector's options in one place.

The columns are the connector's: key, value, topic, partition, offset, timestamp, timestampType, and headers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.session import Connection


def topic_range(
    spark: SparkSession, connection: Connection, topic: str, positions: Mapping[str, str]
) -> DataFrame:
    """The records of a topic between two positions (`offsets.position_options`), one task for each partition."""
    reader = spark.read.format("kafka").options(**connection.for_reading(), includeHeaders="true")
    return reader.option("subscribe", topic).options(**positions).load()


def topic_stream(
    spark: SparkSession, connection: Connection, topic: str, *, starting: str, records_per_batch: int | None
) -> DataFrame:
    """A topic's records as they come. `starting` counts for a query's first run only; later its checkpoint does."""
    reader = spark.readStream.format("kafka").options(**connection.for_reading(), includeHeaders="true")
    if records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(records_per_batch))
    return reader.option("subscribe", topic).option("startingOffsets", starting).load()
