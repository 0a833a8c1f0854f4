"""Registers `format("odradek")`: Spark looks into every installed module whose name begins with `pyspark_`.

Spark imports it in a worker of its own for each session, whether the format is used or not. So it imports nothing but
the base class, and each method what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_odradek import late

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """`spark.read.format("odradek").option("bootstrap.servers", "…").option("subscribe", "orders").load()`."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        """The columns of the stock connector. Raises OptionError."""
        return late.schema(with_headers=late.Options(self.options, late.READING)["includeHeaders"])

    def reader(self, schema: StructType) -> DataSourceReader:
        return late.BatchReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return late.StreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return late.BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return late.StreamWriter(self.options, schema, overwrite)
