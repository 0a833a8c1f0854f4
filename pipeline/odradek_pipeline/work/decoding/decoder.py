"""The protocol of a decoder, and frames of decoded records: each row has its columns, or why it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from pyspark.sql import Column, DataFrame, functions

from odradek_pipeline.outputs.columns import COLUMNS, READ_COLUMNS
from odradek_pipeline.runs.columns import Columns, merge_columns, require_apart
from odradek_pipeline.work.decoding.schema import HEADER_BYTES, PartSchema

ERROR: Final = "_error"
SCHEMA_LABEL: Final = "_schema"


class RecordDecoder(Protocol):
    """Decodes one part of each row."""

    @property
    def schema(self) -> PartSchema: ...

    @property
    def columns(self) -> Columns: ...

    def decode(self, rows: DataFrame, decoded: str, error: str) -> DataFrame:
        """`rows` with two more columns: `decoded`, a struct, and `error`, a text that is null for a good record.

        A part that is null is decoded as null, and is no error: it is a tombstone, or a record without a key.
        """
        ...


def columns_of(decoders: Sequence[RecordDecoder], there: Columns) -> tuple[Mapping[str, Any], ...]:
    """The decoded columns of a table that has `there` already. Raises JobRefusedError for names or types that clash."""
    names = list(COLUMNS)
    for one in decoders:
        require_apart([str(column["name"]) for column in one.columns], names)
        names += [str(column["name"]) for column in one.columns]
    return merge_columns(there, [column for one in decoders for column in one.columns])


def decode_rows(rows: DataFrame, decoders: Sequence[RecordDecoder]) -> DataFrame:
    """`rows` with the columns of all decoders, and with `_error` and `_schema`, which are null for a good record."""
    error = functions.lit(None).cast("string")
    label = functions.lit(None).cast("string")
    columns: list[Column] = []
    for one in decoders:
        decoded, failure = f"_decoded_{one.schema.part}", f"_error_{one.schema.part}"
        rows = one.decode(rows, decoded, failure)
        is_first = error.isNull() & functions.col(failure).isNotNull()
        label = functions.when(is_first, functions.lit(one.schema.label)).otherwise(label)
        said = functions.concat(functions.lit(f"{one.schema.part}: "), functions.col(failure))
        error = functions.coalesce(error, said)
        for column in one.columns:
            name = str(column["name"])
            field = functions.col(decoded).getField(name.removeprefix(one.schema.prefix))
            columns.append(field.alias(name))
    return rows.select(*READ_COLUMNS, *columns, error.alias(ERROR), label.alias(SCHEMA_LABEL))


def payload(schema: PartSchema) -> tuple[Column, Column]:
    """The bytes to decode, and an error that is null where they are there: without a registry's header, if it has one.

    A part that is null stays null without an error.
    """
    content = functions.col(schema.part)
    no_error = functions.lit(None).cast("string")
    if not schema.has_header:
        return content, no_error
    has_header = (functions.length(content) >= HEADER_BYTES) & (
        functions.substring(content, 1, 1) == functions.lit(bytes(1))
    )
    error = functions.when(
        content.isNotNull() & ~has_header,
        functions.lit("no header of a schema registry: it is a zero and an id of four bytes"),
    )
    rest = functions.expr(f"substring({schema.part}, {HEADER_BYTES + 1})")
    return functions.when(has_header, rest), error
