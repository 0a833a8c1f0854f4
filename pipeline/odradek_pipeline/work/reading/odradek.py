"""The project's own data source as a reader: `format("odradek")`, which needs no jar."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.connection.session import SparkConnection
from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.outputs.columns import READ_COLUMNS
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.settings.options import SECURITY
from odradek_pipeline.work.reading.reader import ReadOptions, range_options, split_layers

# The source refuses what it does not know; other settings are for Kafka's own clients.
_KNOWN: Final = ("bootstrap.servers", "client.id", "request.timeout.ms", "max.partition.fetch.bytes")


class OdradekReader:
    """`format("odradek")` for ranges that are planned already."""

    def read_frame(
        self,
        spark: SparkSession,
        connection: SparkConnection,
        ranges: Sequence[OffsetRange],
        options: ReadOptions,
    ) -> DataFrame:
        """Raises JobRefusedError when the data source is not installed."""
        known = {*_KNOWN, *SECURITY}
        settings = {name: value for name, value in connection.settings.items() if name in known}
        settings["isolation.level"] = "read_committed" if options.is_read_committed else "read_uncommitted"
        try:
            frames = [
                spark.read.format("odradek").options(**settings, **range_options(layer, options)).load()
                for layer in split_layers(ranges)
            ]
        except PySparkException as failure:
            if failure.getCondition() != "DATA_SOURCE_NOT_FOUND":
                raise
            raise JobRefusedError(
                "the data source odradek is not there: install odradek-pipeline on every machine, or add --reader kafka"
            ) from failure
        return reduce(DataFrame.unionByName, frames).select(*READ_COLUMNS)
