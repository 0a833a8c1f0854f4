"""The schema of a part of a record: the format, the schema's file, and the names of its columns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from odradek_pipeline.errors import JobRefusedError

SCHEMA_BYTES_MAX: Final = 4 * 1024 * 1024

# The bytes that a schema registry's serializers put before a record: a zero, and the id of a schema in four bytes.
HEADER_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class PartSchema:
    """The schema of `part`, which is `value` or `key`. `content` is the schema file's.

    `has_header` says that a schema registry's header is before each record. `message` names a Protobuf message.
    """

    part: str
    kind: str
    name: str
    content: bytes
    has_header: bool = False
    prefix: str = ""
    message: str | None = None
    is_passing_unknown: bool = False

    @property
    def text(self) -> str:
        """The content as text. Raises JobRefusedError."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as failure:
            raise JobRefusedError(f"{self.name} is not text: a schema of {self.kind} is UTF-8") from failure

    @property
    def label(self) -> str:
        """The name in dead letters: `value json orders.ddl 1f0c9a2b1c2d`. The last word is of the content's hash."""
        message = f" {self.message}" if self.message else ""
        digest = hashlib.sha256(self.content).hexdigest()[:12]
        return f"{self.part} {self.kind}{message} {Path(self.name).name} {digest}"


def read_schema(path: str) -> bytes:
    """The content of a schema's file. Raises JobRefusedError."""
    try:
        if Path(path).stat().st_size > SCHEMA_BYTES_MAX:
            raise JobRefusedError(
                f"{path} is larger than {SCHEMA_BYTES_MAX} bytes: name the file of a schema"
            )
        return Path(path).read_bytes()
    except OSError as failure:
        raise JobRefusedError(f"the schema {path} cannot be read: {failure.strerror}") from failure


def as_columns(decoded: StructType, prefix: str) -> tuple[dict[str, Any], ...]:
    """The fields of a decoded record as columns of a table. All may be null: a record without a value has none."""
    fields = [replace_name(one, prefix + one.name) for one in decoded.fields]
    return tuple(without_metadata(one).jsonValue() for one in fields)


def replace_name(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, field.nullable, field.metadata)


def without_metadata(field: StructField) -> StructField:
    return StructField(field.name, nullable(field.dataType), True)


def nullable(kind: DataType) -> DataType:
    """The type with null allowed everywhere, as tables keep it."""
    if isinstance(kind, StructType):
        return StructType([without_metadata(one) for one in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType), True)
    return kind


def struct_in(schema: PartSchema, kind: Any) -> StructType:
    """`kind` if it is a struct with fields. Raises JobRefusedError."""
    if not isinstance(kind, StructType) or not kind.fields:
        shown = kind.simpleString() if isinstance(kind, DataType) else kind
        raise JobRefusedError(
            f"{schema.name} describes {shown}: a record's {schema.part} is decoded into columns, so its schema is a "
            "record with fields"
        )
    return kind
