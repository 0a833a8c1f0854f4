"""Protobuf by Python's `protobuf` over Arrow: Spark's own jar for it is not among the packages that can be fetched.

It is the one format that needs Python for each record. Whole Arrow batches go through `mapInArrow`, and no row becomes
a row of Python's Spark. A message has no end of its own: bytes behind one are read as more fields of it. So fields that
the schema does not have make a record bad, unless they are to be passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import StringType, StructField, StructType

from odradek_pipeline.runs.columns import Columns
from odradek_pipeline.work.decoding.decoder import payload
from odradek_pipeline.work.decoding.messages import MessageReader, reader_of
from odradek_pipeline.work.decoding.schema import PartSchema, as_columns, struct_in


class ProtobufDecoder:
    """The schema is a descriptor set: `protoc --include_imports --descriptor_set_out=FILE`."""

    def __init__(self, schema: PartSchema) -> None:
        self.schema = schema
        self._fields = struct_in(schema, reader_of(schema).spark_type())

    @property
    def columns(self) -> Columns:
        return as_columns(self._fields, self.schema.prefix)

    def decode(self, rows: DataFrame, decoded: str, error: str) -> DataFrame:
        content, header_error = payload(self.schema)
        bytes_column, header_column = f"{decoded}_bytes", f"{error}_header"
        rows = rows.withColumn(bytes_column, content).withColumn(header_column, header_error)
        added = [StructField(decoded, self._fields), StructField(error, StringType())]
        schema = self.schema

        def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return decode_each_batch(batches, schema, bytes_column, (decoded, error))

        mapped = rows.mapInArrow(decode_batches, StructType([*rows.schema.fields, *added]))
        said = functions.coalesce(functions.col(header_column), functions.col(error))
        return mapped.withColumn(error, said).drop(bytes_column, header_column)


def decode_each_batch(
    batches: Iterable[pa.RecordBatch], schema: PartSchema, content: str, names: tuple[str, str]
) -> Iterator[pa.RecordBatch]:
    """Arrow batches with two more columns, called `names`: the message as a struct, and why it cannot be read."""
    reader = reader_of(schema)
    kind = reader.arrow_type()
    for batch in batches:
        values: list[Any] = []
        errors: list[str | None] = []
        for one in batch.column(content).to_pylist():
            value, error = (None, None) if one is None else _read(reader, one)
            values.append(value)
            errors.append(error)
        arrays = [*batch.columns, pa.array(values, kind), pa.array(errors, pa.string())]
        yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *names])


def _read(reader: MessageReader, content: bytes) -> tuple[Any, str | None]:
    try:
        return reader.read(content), None
    except ValueError as failure:
        return None, str(failure)
