"""Outputs by the name of their format. A new one is one row here; its module is imported when it is asked for."""

from __future__ import annotations

from pyspark.sql import SparkSession

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.outputs.output import TableOutput
from odradek_pipeline.settings.groups import DELTA, FORMATS, ICEBERG, PARQUET


def open_output(spark: SparkSession, kind: str, location: str) -> TableOutput:
    """The output of that kind: a folder or URL for Parquet and Delta, a table's name for Iceberg.

    Raises JobRefusedError."""
    if kind == PARQUET:
        from odradek_pipeline.outputs.parquet.output import ParquetOutput

        return ParquetOutput(spark, location)
    if kind == DELTA:
        from odradek_pipeline.outputs.delta import DeltaOutput

        return DeltaOutput(spark, location)
    if kind == ICEBERG:
        from odradek_pipeline.outputs.iceberg import IcebergOutput

        return IcebergOutput(spark, location)
    raise JobRefusedError(f"there is no format {kind!r}: it must be {FORMATS}")
