"""Avro by `from_avro`, with a mark behind each record.

`from_avro` ignores bytes that are left over, and makes a record of nulls from one that it cannot read. So 16 bytes are
put behind each value, and the schema is wrapped in a record of two fields: the value's own, and those 16 bytes. A
record within a record has no bytes of its own in Avro. Where the mark comes out whole, the value was read to its end,
and not beyond. Where the value cannot be read the wrapped record is null.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import from_avro

from odradek_pipeline.connection.session import AVRO_PACKAGE
from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.runs.columns import Columns
from odradek_pipeline.work.decoding.decoder import payload
from odradek_pipeline.work.decoding.schema import PartSchema, as_columns, struct_in


class AvroDecoder:
    """The schema is Avro's JSON. It is the one that the records were written with: Avro cannot read without it."""

    def __init__(self, schema: PartSchema, mark: bytes) -> None:
        self.schema = schema
        self._mark = mark
        self._wrapped = _wrap_schema(schema, len(mark))
        self._fields = struct_in(schema, self._make_type())

    @property
    def columns(self) -> Columns:
        return as_columns(self._fields, self.schema.prefix)

    def decode(self, rows: DataFrame, decoded: str, error: str) -> DataFrame:
        content, header_error = payload(self.schema)
        marked = functions.concat(content, functions.lit(self._mark))
        both = f"{decoded}_all"
        rows = rows.withColumn(both, from_avro(marked, self._wrapped, {"mode": "PERMISSIVE"}))
        rows = rows.withColumn(decoded, functions.col(f"{both}.record"))
        is_whole = functions.col(f"{both}.end") == functions.lit(self._mark)
        said = functions.when(functions.col(decoded).isNull(), "no record of the schema").when(
            ~functions.coalesce(is_whole, functions.lit(False)), "bytes are left over behind the record"
        )
        return rows.withColumn(
            error, functions.coalesce(header_error, functions.when(content.isNotNull(), said))
        )

    def _make_type(self) -> Any:
        """The type that Spark makes of the schema. Raises JobRefusedError, also without Spark's jar for Avro."""
        spark = SparkSession.getActiveSession()
        assert spark is not None, "a schema is read on the driver"
        try:
            column = from_avro(functions.lit(b""), self._wrapped, {"mode": "PERMISSIVE"})
            return spark.range(0).select(column.alias("both")).select("both.record").schema[0].dataType
        except TypeError as failure:
            raise JobRefusedError(
                f"Spark's jar for Avro is not on the class path: add --fetch-jars, or {AVRO_PACKAGE}"
            ) from failure
        except PySparkException as failure:
            said = " ".join(str(failure).split())[:300]
            raise JobRefusedError(f"{self.schema.name} is no schema of Avro: {said}") from failure


def _wrap_schema(schema: PartSchema, mark_bytes: int) -> str:
    try:
        inner = json.loads(schema.text)
    except ValueError as failure:
        raise JobRefusedError(f"{schema.name} is no schema of Avro: it is not JSON: {failure}") from failure
    end = {"type": "fixed", "name": "OdradekEnd", "size": mark_bytes}
    fields = [{"name": "record", "type": inner}, {"name": "end", "type": end}]
    # Without a namespace: types of the schema that have none would get the wrapper's.
    return json.dumps({"type": "record", "name": "OdradekWrapper", "fields": fields})
