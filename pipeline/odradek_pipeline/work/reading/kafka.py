"""Spark's stock Kafka connector as a reader: one task for each partition, more where a partition is large.

`failOnDataLoss` stays on: it is the second line of defence, behind the plan's own checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.connection.session import CONNECTOR_PACKAGE, SparkConnection
from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.outputs.columns import READ_COLUMNS
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.work.reading.reader import ReadOptions, range_options, split_layers

# The connector lists offsets twice for each poll, and 500 records are soon read: fewer polls are fewer requests.
_POLL_RECORDS_DEFAULT: Final = "10000"


class KafkaReader:
    """`format("kafka")` for ranges that are planned already."""

    def read_frame(
        self,
        spark: SparkSession,
        connection: SparkConnection,
        ranges: Sequence[OffsetRange],
        options: ReadOptions,
    ) -> DataFrame:
        """Raises JobRefusedError when the connector is not on the class path."""
        try:
            frames = [_load(spark, connection, layer, options) for layer in split_layers(ranges)]
        except PySparkException as failure:
            if "kafka" not in str(failure) or "source" not in str(failure).lower():
                raise
            raise JobRefusedError(
                "Spark's Kafka connector is not on the class path: add --fetch-jars, or the jars of "
                f"{CONNECTOR_PACKAGE}"
            ) from failure
        return reduce(DataFrame.unionByName, frames)


def _load(
    spark: SparkSession, connection: SparkConnection, ranges: Sequence[OffsetRange], options: ReadOptions
) -> DataFrame:
    settings = {"kafka.max.poll.records": _POLL_RECORDS_DEFAULT, **connection.for_reading()}
    settings["kafka.isolation.level"] = "read_committed" if options.is_read_committed else "read_uncommitted"
    reader = spark.read.format("kafka").options(**settings, **range_options(ranges, options))
    return reader.load().select(*READ_COLUMNS)
