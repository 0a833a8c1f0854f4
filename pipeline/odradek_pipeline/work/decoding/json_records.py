"""JSON by `from_json`, with three checks of what it lets pass.

It reads the first value of a text and ignores what comes behind. So the text is parsed a second time, as the first of
two elements of an array whose second is a mark. Only a text that is one whole value leaves the mark in its place.
A field that the schema says is NOT NULL may be missing without an error, so it is looked for. Bytes that are not UTF-8
would become replacement characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import DataType, StringType, StructField, StructType

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.runs.columns import Columns
from odradek_pipeline.work.decoding.decoder import payload
from odradek_pipeline.work.decoding.schema import PartSchema, as_columns, nullable, struct_in

_CORRUPT: Final = "_corrupt"


class JsonDecoder:
    """The schema is DDL, as `id BIGINT NOT NULL, name STRING`, or a struct as Spark writes it in JSON."""

    def __init__(self, schema: PartSchema, mark: bytes) -> None:
        self.schema = schema
        self._fields = _parse_schema(schema)
        self._mark = mark.hex()

    @property
    def columns(self) -> Columns:
        return as_columns(self._fields, self.schema.prefix)

    def decode(self, rows: DataFrame, decoded: str, error: str) -> DataFrame:
        content, header_error = payload(self.schema)
        text = content.cast("string")
        wanted = nullable(self._fields)
        assert isinstance(wanted, StructType)
        with_corrupt = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        found = functions.from_json(text, with_corrupt, options)
        marked = functions.concat(functions.lit("["), text, functions.lit(f',"{self._mark}"]'))
        rows = rows.withColumn(decoded, found).withColumn(
            f"{decoded}_all", functions.from_json(marked, "array<string>")
        )
        return rows.withColumn(error, functions.coalesce(header_error, self._error(content, text, decoded)))

    def _error(self, content: Column, text: Column, decoded: str) -> Column:
        found, everything = functions.col(decoded), functions.col(f"{decoded}_all")
        is_whole = (functions.size(everything) == 2) & (
            functions.try_element_at(everything, functions.lit(2)) == functions.lit(self._mark)
        )
        checks = [
            (~functions.is_valid_utf8(text), "bytes that are not UTF-8"),
            (found.isNull(), "an empty text"),
            (~functions.coalesce(is_whole, functions.lit(False)), "no JSON, or more behind a JSON value"),
            (found.getField(_CORRUPT).isNotNull(), "no JSON object with fields of the schema's types"),
            *(
                (_field(found, path).isNull(), f"the required field {'.'.join(path)} is missing or null")
                for path in _list_required(self._fields)
            ),
        ]
        error = functions.lit(None).cast("string")
        for condition, said in reversed(checks):
            error = functions.when(condition, functions.lit(said)).otherwise(error)
        return functions.when(content.isNotNull(), error)


def _parse_schema(schema: PartSchema) -> StructType:
    text = schema.text.strip()
    try:
        kind: DataType = (
            StructType.fromJson(json.loads(text)) if text.startswith("{") else StructType.fromDDL(text)
        )
    except (PySparkException, ValueError, KeyError, TypeError) as failure:
        said = " ".join(str(failure).split())[:300]
        raise JobRefusedError(
            f"{schema.name} is no schema for JSON. It is DDL, as `id BIGINT NOT NULL, name STRING`, or a struct in "
            f"Spark's own JSON: {said}"
        ) from failure
    return struct_in(schema, kind)


def _list_required(fields: StructType, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of fields that may not be null. Those in a struct that may be null itself are left out."""
    for one in fields.fields:
        if not one.nullable:
            yield (*before, one.name)
            if isinstance(one.dataType, StructType):
                yield from _list_required(one.dataType, (*before, one.name))


def _field(found: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        found = found.getField(name)
    return found
