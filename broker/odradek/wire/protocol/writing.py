"""From messages to bytes: writers compiled once for each structure of each version.

A writer appends a value to a bytearray. Neighbouring fields of fixed size are packed together. Where kio
declares a `timedelta` or a `datetime` a plain int of milliseconds is written as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, Final
from uuid import UUID

from odradek.wire.protocol.reading import EPOCH, FIXED_FORMATS, NULL_UUID, Converter, default_of, steps_of
from odradek.wire.protocol.schema import STRUCTURE, FieldSchema, Structure, fields_of
from odradek.wire.protocol.varint import append_unsigned_varint, encode_unsigned_varint

Writer = Callable[[bytearray, Any], None]

_ONE_MILLISECOND: Final = timedelta(milliseconds=1)
_pack_int16 = Struct(">h").pack
_pack_int32 = Struct(">i").pack


def milliseconds(value: timedelta | datetime | int | None) -> int:
    """Whole milliseconds: of a span, since the epoch of a time, or the int as it is; -1 for None."""
    if value is None:
        return -1
    if isinstance(value, datetime):
        return (value - EPOCH) // _ONE_MILLISECOND
    if isinstance(value, timedelta):
        return value // _ONE_MILLISECOND
    return value


def _uuid_bytes(value: UUID | None) -> bytes:
    return NULL_UUID if value is None else value.bytes


_CONVERTERS: Final[dict[str, Converter]] = {
    "uuid": _uuid_bytes,
    "timedelta_i32": milliseconds,
    "timedelta_i64": milliseconds,
    "datetime_i64": milliseconds,
}


@cache
def structure_writer(structure: Structure) -> Writer:
    """The writer of a kio class."""
    fields = fields_of(structure)
    is_flexible: bool = structure.__flexible__
    steps = steps_of(
        tuple(field for field in fields if field.tag is None),
        _build_fixed_run_writer,
        lambda field: _write_attribute(field.name, _value_writer(field, is_flexible)),
    )
    if not is_flexible:

        def write_plain(out: bytearray, value: object) -> None:
            for step in steps:
                step(out, value)

        return write_plain

    tagged = sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
    if not tagged:

        def write_flexible(out: bytearray, value: object) -> None:
            for step in steps:
                step(out, value)
            out.append(0)

        return write_flexible

    write_tagged = _build_tagged_writer(tagged)

    def write_with_tagged(out: bytearray, value: object) -> None:
        for step in steps:
            step(out, value)
        write_tagged(out, value)

    return write_with_tagged


def _build_tagged_writer(fields: list[FieldSchema]) -> Writer:
    """Tagged fields in the order of their tags, without those that have their default."""
    known = tuple(
        (field.tag or 0, attrgetter(field.name), default_of(field), _value_writer(field, True))
        for field in fields
    )

    def write(out: bytearray, value: object) -> None:
        present = [(row, field) for row in known if (field := row[1](value)) != row[2]]
        append_unsigned_varint(out, len(present))
        for (tag, _, _, write_value), field in present:
            append_unsigned_varint(out, tag)
            content = bytearray()
            write_value(content, field)
            append_unsigned_varint(out, len(content))
            out += content

    return write


def _write_attribute(name: str, write_value: Writer) -> Writer:
    get = attrgetter(name)

    def write(out: bytearray, structure: object) -> None:
        write_value(out, get(structure))

    return write


def _build_fixed_run_writer(fields: tuple[FieldSchema, ...]) -> Writer:
    pack = Struct(">" + "".join(FIXED_FORMATS[field.wire_type] for field in fields)).pack
    get = attrgetter(*(field.name for field in fields))
    if not any(field.wire_type in _CONVERTERS for field in fields):
        if len(fields) == 1:

            def write_one(out: bytearray, structure: object) -> None:
                out += pack(get(structure))

            return write_one

        def write_plain(out: bytearray, structure: object) -> None:
            out += pack(*get(structure))

        return write_plain

    rows = tuple((attrgetter(field.name), _CONVERTERS.get(field.wire_type, _as_it_is)) for field in fields)

    def write_converted(out: bytearray, structure: object) -> None:
        out += pack(*[convert(get_one(structure)) for get_one, convert in rows])

    return write_converted


def _as_it_is(value: object) -> object:
    return value


def _value_writer(field: FieldSchema, is_flexible: bool) -> Writer:
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        return _array_writer(_value_writer(element, is_flexible), is_flexible, field)
    if field.wire_type == STRUCTURE:
        write_structure = structure_writer(field.structure)
        return _nullable_structure_writer(write_structure) if field.is_nullable else write_structure
    if field.wire_type in FIXED_FORMATS:
        return _build_fixed_writer(field.wire_type)
    pack_length = (
        _compact_length if is_flexible else _pack_int16 if field.wire_type == "string" else _pack_int32
    )
    return (
        _text_writer(field, pack_length) if field.wire_type == "string" else _bytes_writer(field, pack_length)
    )


def _build_fixed_writer(wire_type: str) -> Writer:
    pack = Struct(">" + FIXED_FORMATS[wire_type]).pack
    convert = _CONVERTERS.get(wire_type, _as_it_is)

    def write(out: bytearray, value: object) -> None:
        out += pack(convert(value))

    return write


_COMPACT_LENGTHS: Final = tuple(encode_unsigned_varint(length + 1) for length in range(256))


def _compact_length(length: int) -> bytes:
    # -1, a null, is 0 on the wire.
    return _COMPACT_LENGTHS[length] if 0 <= length < 256 else encode_unsigned_varint(length + 1)


def _null(field: FieldSchema, pack_length: Callable[[int], bytes]) -> bytes:
    if not field.is_nullable:
        raise TypeError(f"the field {field.name} is null, which its version does not allow")
    return pack_length(-1)


def _text_writer(field: FieldSchema, pack_length: Callable[[int], bytes]) -> Writer:
    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            out += _null(field, pack_length)
            return
        content = value.encode()
        out += pack_length(len(content))
        out += content

    return write


def _bytes_writer(field: FieldSchema, pack_length: Callable[[int], bytes]) -> Writer:
    def write(out: bytearray, value: bytes | memoryview | None) -> None:
        if value is None:
            out += _null(field, pack_length)
            return
        out += pack_length(len(value))
        out += value

    return write


def _array_writer(write_element: Writer, is_flexible: bool, field: FieldSchema) -> Writer:
    pack_length = _compact_length if is_flexible else _pack_int32

    def write(out: bytearray, value: Sequence[object] | None) -> None:
        if value is None:
            out += _null(field, pack_length)
            return
        out += pack_length(len(value))
        for element in value:
            write_element(out, element)

    return write


def _nullable_structure_writer(write_structure: Writer) -> Writer:
    def write(out: bytearray, value: object) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        write_structure(out, value)

    return write
