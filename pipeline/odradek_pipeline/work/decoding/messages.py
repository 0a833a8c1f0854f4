"""Protobuf messages as values: the class of a descriptor set's message, its type, and one message's fields.

    int32, sint32, sfixed32                     int
    int64, sint64, sfixed64, uint32, fixed32    bigint
    uint64, fixed64                             decimal(20,0)
    float, double, bool, string, bytes          float, double, boolean, string, binary
    enum                                        string: its name, or its number without one
    google.protobuf.Timestamp                   timestamp
    message, repeated, map                      struct, array, map

A field without presence that is not set has its default. One with presence is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.work.decoding.schema import PartSchema

# By the numbers of descriptor.proto's FieldDescriptorProto.Type.
_GROUP_OR_MESSAGE: Final = (10, 11)
_ENUM: Final = 14
_SCALARS: Final[Mapping[int, tuple[DataType, Any]]] = {
    1: (DoubleType(), pa.float64()),
    2: (FloatType(), pa.float32()),
    3: (LongType(), pa.int64()),
    4: (DecimalType(20, 0), pa.decimal128(20, 0)),
    5: (IntegerType(), pa.int32()),
    6: (DecimalType(20, 0), pa.decimal128(20, 0)),
    7: (LongType(), pa.int64()),
    8: (BooleanType(), pa.bool_()),
    9: (StringType(), pa.string()),
    12: (BinaryType(), pa.binary()),
    13: (LongType(), pa.int64()),
    _ENUM: (StringType(), pa.string()),
    15: (IntegerType(), pa.int32()),
    16: (LongType(), pa.int64()),
    17: (IntegerType(), pa.int32()),
    18: (LongType(), pa.int64()),
}
_UNSIGNED_64: Final = (4, 6)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_INDEXES_MAX: Final = 100


class MessageReader:
    """Reads messages of one type. Raises JobRefusedError for a descriptor set that does not describe it."""

    def __init__(self, schema: PartSchema) -> None:
        self._schema = schema
        self._class, self._indexes = _message_class(schema)
        self._fields = _fields(self._class.DESCRIPTOR, (self._class.DESCRIPTOR.full_name,))

    def spark_type(self) -> StructType:
        return StructType([StructField(one.name, one.spark) for one in self._fields])

    def arrow_type(self) -> pa.DataType:
        return pa.struct([(one.name, one.arrow) for one in self._fields])

    def read(self, content: bytes) -> dict[str, Any]:
        """The fields of a message. Raises ValueError for bytes that are not one, or have more."""
        if self._schema.has_header:
            content = _skip_indexes(content, self._indexes)
        message = self._class()
        try:
            message.ParseFromString(content)
        except DecodeError as failure:
            raise ValueError("no message of the schema, or its end is missing") from failure
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise ValueError(f"required fields are missing: {missing}")
        if not self._schema.is_passing_unknown:
            size_bytes = message.ByteSize()
            message.DiscardUnknownFields()
            if message.ByteSize() != size_bytes:
                raise ValueError("bytes are left over: fields that the schema does not have")
        return {one.name: one.value_in(message) for one in self._fields}


class _MessageField:
    """One field: its types, and how a message's value of it becomes a plain value."""

    def __init__(
        self, descriptor: Any, spark: DataType, arrow: pa.DataType, plain: Callable[[Any], Any]
    ) -> None:
        self.name = str(descriptor.name)
        self.spark = spark
        self.arrow = arrow
        self._has_presence = bool(descriptor.has_presence)
        self._plain = plain

    def value_in(self, message: Any) -> Any:
        if self._has_presence and not message.HasField(self.name):
            return None
        return self._plain(getattr(message, self.name))


@lru_cache(maxsize=8)
def reader_of(schema: PartSchema) -> MessageReader:
    """The reader of a schema, made once in each of Spark's workers."""
    return MessageReader(schema)


def _message_class(schema: PartSchema) -> tuple[Any, tuple[int, ...]]:
    """The class of the schema's message, and where its file has it. Raises JobRefusedError."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(schema.content)
        for one in files.file:
            pool.Add(one)
        found = pool.FindMessageTypeByName(schema.message or "")
    except KeyError as failure:
        names = ", ".join(sorted(name for one in files.file for name in _names(one))[:20])
        raise JobRefusedError(
            f"{schema.name} has no message {schema.message}; it has {names or 'none'}. Write a name with its package, "
            "and the set with protoc --include_imports"
        ) from failure
    except (DecodeError, TypeError) as failure:
        raise JobRefusedError(
            f"{schema.name} is no descriptor set: write it with protoc --include_imports --descriptor_set_out=FILE"
        ) from failure
    return message_factory.GetMessageClass(found), _place(found)


def _names(file: Any) -> Iterator[str]:
    before = f"{file.package}." if file.package else ""
    return (before + one.name for one in file.message_type)


def _place(descriptor: Any) -> tuple[int, ...]:
    """The indexes of a message in its file, from the outermost in."""
    if descriptor.containing_type is None:
        siblings = list(descriptor.file.message_types_by_name.values())
        return (_number(siblings, descriptor),)
    parent = descriptor.containing_type
    return (*_place(parent), _number(list(parent.nested_types), descriptor))


def _number(siblings: list[Any], descriptor: Any) -> int:
    return [one.full_name for one in siblings].index(descriptor.full_name)


def _fields(descriptor: Any, above: tuple[str, ...]) -> list[_MessageField]:
    return [_field(one, above) for one in descriptor.fields]


def _field(descriptor: Any, above: tuple[str, ...]) -> _MessageField:
    spark, arrow, plain = _kind(descriptor, above)
    if _is_map(descriptor):
        return _MessageField(descriptor, spark, arrow, plain)
    if _is_repeated(descriptor):
        return _MessageField(
            descriptor, ArrayType(spark), pa.list_(arrow), lambda values: [plain(one) for one in values]
        )
    return _MessageField(descriptor, spark, arrow, plain)


def _kind(descriptor: Any, above: tuple[str, ...]) -> tuple[DataType, pa.DataType, Callable[[Any], Any]]:
    """The types of one value of a field, and how it becomes a plain value."""
    if descriptor.type not in _GROUP_OR_MESSAGE:
        spark, arrow = _SCALARS[descriptor.type]
        return spark, arrow, _scalar(descriptor)
    message = descriptor.message_type
    if message.full_name == _TIMESTAMP:
        return TimestampType(), pa.timestamp("us", "UTC"), _microseconds
    if message.full_name in above:
        raise JobRefusedError(
            f"message {message.full_name} holds itself in {'.'.join((*above[1:], descriptor.name))}: a table's columns "
            "have no end then. Decode another message, or load the bytes alone"
        )
    fields = _fields(message, (*above, message.full_name))
    if _is_map(descriptor):
        key, value = fields
        value_plain = _kind(message.fields[1], (*above, message.full_name))[2]
        return (
            MapType(key.spark, value.spark),
            pa.map_(key.arrow, value.arrow),
            lambda entries: [(name, value_plain(entries[name])) for name in entries],
        )
    spark = StructType([StructField(one.name, one.spark) for one in fields])
    arrow = pa.struct([(one.name, one.arrow) for one in fields])
    return spark, arrow, lambda found: {one.name: one.value_in(found) for one in fields}


def _scalar(descriptor: Any) -> Callable[[Any], Any]:
    if descriptor.type == _ENUM:
        names = {one.number: one.name for one in descriptor.enum_type.values}
        return lambda number: names.get(number, str(number))
    if descriptor.type in _UNSIGNED_64:
        return Decimal
    return lambda value: value


def _microseconds(moment: Any) -> int:
    return int(moment.seconds) * 1_000_000 + int(moment.nanos) // 1000


def _is_map(descriptor: Any) -> bool:
    message = descriptor.message_type
    return bool(_is_repeated(descriptor) and message is not None and message.GetOptions().map_entry)


def _is_repeated(descriptor: Any) -> bool:
    """Releases of protobuf before 6.30 have `label` alone, and later ones warn of it."""
    found = getattr(descriptor, "is_repeated", None)
    return bool(descriptor.label == descriptor.LABEL_REPEATED if found is None else found)


def _skip_indexes(content: bytes, wanted: tuple[int, ...]) -> bytes:
    """Return the bytes behind the message indexes of a schema registry's serializer.

    The indexes are a count and numbers, as zigzag varints. A count of 0 stands for the first message of the file.
    Raises ValueError for another message than `wanted`.
    """
    count, at = _read_varint(content, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError(f"{count} message indexes behind the header of the schema registry")
    found = []
    for _ in range(count):
        index, at = _read_varint(content, at)
        found.append(index)
    if tuple(found or [0]) != wanted:
        raise ValueError(f"another message of the schema: its indexes are {found or [0]}, not {list(wanted)}")
    return content[at:]


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise ValueError("the message indexes behind the header of the schema registry are cut off")
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
