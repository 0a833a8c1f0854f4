"""From bytes to messages: readers compiled once for each structure of each version.

A reader is a function of the data, a position and a budget of array elements; it gives the value and the position after
it. Neighbouring fields of fixed size are unpacked together. No length that a message announces is trusted. An array's
length is compared with the bytes that are left, and with the budget, before a list is made.

A value that kio's type cannot hold stays a plain int: an unknown error code, or milliseconds beyond
`timedelta` and `datetime`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from struct import Struct
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.requests import complete, find_nested_type
from odradek.wire.protocol.schema import STRUCTURE, FieldSchema, Structure, fields_of
from odradek.wire.protocol.varint import read_unsigned_varint

Values = dict[str, object]
Budget = list[int]  # one number: array elements that may still be read
Converter = Callable[[Any], object]
Reader = Callable[[memoryview, int, Budget], tuple[Any, int]]
# Reads one field or several into a dict by name; gives the position after them.
Step = Callable[[memoryview, int, Budget, Values], int]
AnyStep = TypeVar("AnyStep")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NULL_UUID: Final = bytes(16)

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}


def to_timedelta(milliseconds: int) -> timedelta | int:
    try:
        return timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds


def to_datetime(milliseconds: int) -> datetime | int | None:
    if milliseconds == -1:
        return None
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds


def _uuid(value: bytes) -> UUID | None:
    return None if value == NULL_UUID else UUID(bytes=value)


def to_error_code(value: int) -> object:
    from kio.schema.errors import ErrorCode

    try:
        return ErrorCode(value)
    except ValueError:
        return value


_CONVERTERS: Final[dict[str, Converter]] = {
    "uuid": _uuid,
    "error_code": to_error_code,
    "timedelta_i32": to_timedelta,
    "timedelta_i64": to_timedelta,
    "datetime_i64": to_datetime,
}


@cache
def structure_reader(structure: Structure, request: type | None = None) -> Reader:
    """The reader of a kio class; with a type of `requests`, of the two joined."""
    fields = fields_of(structure)
    is_flexible: bool = structure.__flexible__
    untagged = tuple(field for field in fields if field.tag is None)
    read_untagged = _build_untagged_reader(untagged, is_flexible, request)
    if request is not None:
        structure = cast(Structure, complete(structure, request))
    if not is_flexible:

        def read_plain(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
            values: Values = {}
            position = read_untagged(data, position, budget, values)
            return structure(**values), position

        return read_plain

    tagged = {field.tag: field for field in fields if field.tag is not None}
    tagged_readers = {tag: (field.name, _value_reader(field, True, request)) for tag, field in tagged.items()}
    tagged_defaults = {field.name: default_of(field) for field in tagged.values()}

    def read_flexible(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        values = tagged_defaults.copy()
        position = read_untagged(data, position, budget, values)
        if position < len(data) and data[position] == 0:
            return structure(**values), position + 1
        count, position = read_unsigned_varint(data, position)
        for _ in range(count):
            tag, position = read_unsigned_varint(data, position)
            size, position = read_unsigned_varint(data, position)
            after = position + size
            if after > len(data):
                raise InvalidRequest(f"the tagged field {tag} ends beyond the message")
            known = tagged_readers.get(tag)
            if known is not None:
                name, read_value = known
                values[name], end = read_value(data[:after], position, budget)
                if end != after:
                    raise InvalidRequest(f"the tagged field {name} has {after - end} bytes too many")
            position = after
        return structure(**values), position

    return read_flexible


def default_of(field: FieldSchema) -> object:
    """The value of a field that is not given: the schema's default, else zero, empty or (where allowed)
    null.
    """
    if field.default is not MISSING:
        return field.default
    if field.is_array:
        return ()
    if field.wire_type == STRUCTURE:
        if field.is_nullable:
            return None
        return field.structure(**{inner.name: default_of(inner) for inner in fields_of(field.structure)})
    if field.wire_type == "string":
        return ""
    if field.wire_type in ("bytes", "records"):
        return None if field.is_nullable else b""
    if field.wire_type == "datetime_i64":
        return None if field.is_nullable else EPOCH
    if field.wire_type == "uuid":
        return None
    if field.wire_type == "bool":
        return False
    converter = _CONVERTERS.get(field.wire_type)
    return 0 if converter is None else converter(0)


def steps_of(
    fields: tuple[FieldSchema, ...],
    of_run: Callable[[tuple[FieldSchema, ...]], AnyStep],
    of_field: Callable[[FieldSchema], AnyStep],
) -> tuple[AnyStep, ...]:
    """A step for each run of neighbouring fields of fixed size, and for each other field."""
    steps: list[AnyStep] = []
    for is_fixed, group in groupby(fields, _is_fixed):
        run = tuple(group)
        steps += [of_run(run)] if is_fixed else map(of_field, run)
    return tuple(steps)


def _is_fixed(field: FieldSchema) -> bool:
    return not field.is_array and field.wire_type in FIXED_FORMATS


def _build_untagged_reader(fields: tuple[FieldSchema, ...], is_flexible: bool, request: type | None) -> Step:
    """Reads the fields that are always there."""
    steps = steps_of(
        fields,
        _build_fixed_run_reader,
        lambda field: _store_as(field.name, _value_reader(field, is_flexible, request)),
    )
    if len(steps) == 1:
        return steps[0]

    def read(data: memoryview, position: int, budget: Budget, values: Values) -> int:
        for step in steps:
            position = step(data, position, budget, values)
        return position

    return read


def _store_as(name: str, read_value: Reader) -> Step:
    def read(data: memoryview, position: int, budget: Budget, values: Values) -> int:
        values[name], position = read_value(data, position, budget)
        return position

    return read


def _build_fixed_run_reader(fields: tuple[FieldSchema, ...]) -> Step:
    packed = Struct(">" + "".join(FIXED_FORMATS[field.wire_type] for field in fields))
    unpack = packed.unpack_from
    size = packed.size
    names = tuple(field.name for field in fields)
    conversions = tuple(
        (field.name, _CONVERTERS[field.wire_type]) for field in fields if field.wire_type in _CONVERTERS
    )

    def read(data: memoryview, position: int, budget: Budget, values: Values) -> int:
        values.update(zip(names, unpack(data, position), strict=True))
        for name, convert in conversions:
            values[name] = convert(values[name])
        return position + size

    return read


def _value_reader(field: FieldSchema, is_flexible: bool, request: type | None) -> Reader:
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        read_element = _value_reader(element, is_flexible, request)
        return _array_reader(read_element, field.name, is_flexible, is_nullable=field.is_nullable)
    if field.wire_type == STRUCTURE:
        read_structure = structure_reader(field.structure, find_nested_type(request, field.name))
        return _nullable_structure_reader(read_structure) if field.is_nullable else read_structure
    if field.wire_type in FIXED_FORMATS:
        return _build_fixed_reader(field.wire_type)
    read_length = _compact_length if is_flexible else _length_reader(field.wire_type)
    if field.wire_type == "string":
        return _string_reader(field.name, read_length, is_nullable=field.is_nullable)
    return _bytes_reader(field.name, read_length, is_nullable=field.is_nullable)


def _build_fixed_reader(wire_type: str) -> Reader:
    packed = Struct(">" + FIXED_FORMATS[wire_type])
    unpack = packed.unpack_from
    size = packed.size
    convert = _CONVERTERS.get(wire_type)

    def read(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        (value,) = unpack(data, position)
        return (value if convert is None else convert(value)), position + size

    return read


def _compact_length(data: memoryview, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:  # nearly always one byte
        return data[position] - 1, position + 1
    length, position = read_unsigned_varint(data, position)
    return length - 1, position


def _length_reader(wire_type: str) -> Callable[[memoryview, int], tuple[int, int]]:
    packed = Struct(">h" if wire_type == "string" else ">i")
    unpack = packed.unpack_from
    size = packed.size

    def read(data: memoryview, position: int) -> tuple[int, int]:
        return unpack(data, position)[0], position + size

    return read


def _refuse_length(name: str, length: int, left: int) -> InvalidRequest:
    if length == -1:
        return InvalidRequest(f"the field {name} is null, which is not allowed")
    if length < 0:
        return InvalidRequest(f"the field {name} has the length {length}")
    return InvalidRequest(f"the field {name} has the length {length}, but only {left} bytes follow")


def _string_reader(
    name: str, read_length: Callable[[memoryview, int], tuple[int, int]], *, is_nullable: bool
) -> Reader:
    def read(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        length, position = read_length(data, position)
        after = position + length
        if length < 0 or after > len(data):
            if length == -1 and is_nullable:
                return None, position
            raise _refuse_length(name, length, len(data) - position)
        try:
            return str(data[position:after], "utf-8"), after
        except UnicodeDecodeError as failure:
            raise InvalidRequest(f"the field {name} is not UTF-8: {failure}") from failure

    return read


def _bytes_reader(
    name: str, read_length: Callable[[memoryview, int], tuple[int, int]], *, is_nullable: bool
) -> Reader:
    def read(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        length, position = read_length(data, position)
        after = position + length
        if length < 0 or after > len(data):
            if length == -1 and is_nullable:
                return None, position
            raise _refuse_length(name, length, len(data) - position)
        return bytes(data[position:after]), after

    return read


def _array_reader(read_element: Reader, name: str, is_flexible: bool, *, is_nullable: bool) -> Reader:
    read_length = _compact_length if is_flexible else _length_reader("array")

    def read(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        length, position = read_length(data, position)
        # Every element has at least one byte.
        if not 0 <= length <= len(data) - position:
            if length == -1 and is_nullable:
                return None, position
            raise _refuse_length(name, length, len(data) - position)
        budget[0] -= length
        if budget[0] < 0:
            raise InvalidRequest(f"the message has too many elements, the last {length} in {name}; split it")
        elements = []
        try:
            for _ in range(length):
                element, position = read_element(data, position, budget)
                elements.append(element)
        except BaseException:
            # One by one, in between which other threads run: a million at once would hold them up for a second.
            while elements:
                elements.pop()
            raise
        return tuple(elements), position

    return read


def _nullable_structure_reader(read_structure: Reader) -> Reader:
    def read(data: memoryview, position: int, budget: Budget) -> tuple[object, int]:
        if position >= len(data):
            raise InvalidRequest(f"the message ends at byte {position}, within a structure")
        marker = data[position]
        if marker == 0xFF:
            return None, position + 1
        if marker != 1:
            raise InvalidRequest(f"the marker of a nullable structure is {marker}, neither 1 nor -1")
        return read_structure(data, position + 1, budget)

    return read
