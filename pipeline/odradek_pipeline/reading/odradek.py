"""The project's own data source as a reader: `format("odradek")`, which needs no jar.

The ranges are planned already, so the source is handed them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.reading.reader import ReadOptions
from odradek_pipeline.records import READ_COLUMNS
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.session import Connection


class OdradekReader:
    """`format("odradek")` for ranges that are planned already."""

    def frame(
        self, spark: SparkSession, connection: Connection, ranges: Sequence[OffsetRange], options: ReadOptions
    ) -> DataFrame:
        """Raises JobRefusedError when the data source is not installed."""
        reader = spark.read.format("odradek").options(**connection.for_reading())
        reader = reader.options(
            ranges=json.dumps([one.as_json() for one in ranges]),
            isolation="read_committed" if options.is_read_committed else "read_uncommitted",
            recordsPerTask=str(options.records_per_task),
        )
        try:
            return reader.load().select(*READ_COLUMNS)
        except PySparkException as failure:
            if failure.getCondition() != "DATA_SOURCE_NOT_FOUND":
                raise
            raise JobRefusedError(
                "the data source odradek is not there: install odradek-pipeline on every machine, or add --reader kafka"
            ) from failure
