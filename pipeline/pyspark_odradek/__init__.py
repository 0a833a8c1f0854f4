"""Registers `format("odradek")`: Spark looks into every installed module whose name begins with `pyspark_`.

Spark imports it in a worker of its own for each session, whether the format is used or not. So it imports nothing but
the base class, and each method what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

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
        from odradek_pipeline.settings.options import READING, Options
        from odradek_pipeline.source.arrow import schema

        return schema(with_headers=Options(self.options, READING)["includeHeaders"])

    def reader(self, schema: StructType) -> DataSourceReader:
        from odradek_pipeline.source.batch import BatchReader

        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from odradek_pipeline.source.stream import StreamReader

        return StreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from odradek_pipeline.sink.writers import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from odradek_pipeline.sink.writers import StreamWriter

        return StreamWriter(self.options, schema, overwrite)
