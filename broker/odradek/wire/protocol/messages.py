"""Messages of the version asked for, built from keyword arguments.

A handler gives every field that it knows, and those that the requested version lacks are left out. So one construction
serves all versions that differ only in their fields. Nested structures are mappings (or finished instances); arrays are
any iterables; error codes, spans and times may be plain ints (milliseconds). A field not given has the schema's
default, as in Apache Kafka's own generated classes.

A misspelt name is left out silently; the tests have a check of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Protocol, cast
from uuid import UUID

from odradek.wire.protocol.reading import Converter, default_of, to_datetime, to_error_code, to_timedelta
from odradek.wire.protocol.schema import (
    REQUEST,
    RESPONSE,
    STRUCTURE,
    FieldSchema,
    Structure,
    data_class,
    fields_of,
    message_class,
)
from odradek.wire.protocol.writing import milliseconds

__all__ = ["Fields", "Message", "data", "milliseconds", "request", "response"]


class Message(Protocol):
    """A request or response of some version: an instance of one of kio's classes."""

    @property
    def __flexible__(self) -> bool: ...


# A message of a version that is known when it is read: mypy knows none of its fields.
AnyMessage = Any
# The fields of a structure, by name.
Fields = Mapping[str, object]
Builder = Callable[[Mapping[str, object]], object]

_ZERO_UUID: Final = UUID(int=0)


def response(api_key: int, api_version: int, /, **fields: object) -> Message:
    """The answer of this version, an instance of kio's class.

    Raises UnsupportedVersion when there is no such version.
    """
    return cast(Message, structure_builder(message_class(api_key, api_version, RESPONSE))(fields))


def request(api_key: int, api_version: int, /, **fields: object) -> Message:
    """The request of this version, an instance of kio's class. Raises as `response`."""
    return cast(Message, structure_builder(message_class(api_key, api_version, REQUEST))(fields))


def data(name: str, version: int, /, **fields: object) -> object:
    """A structure that is no request or response, such as `consumer_protocol_assignment`. Raises as
    `response`.
    """
    return structure_builder(data_class(name, version))(fields)


@cache
def structure_builder(structure: Structure) -> Builder:
    """A function from a mapping to an instance of the kio class `structure`."""
    rows = tuple((field.name, _converter(field), default_of(field)) for field in fields_of(structure))

    def build(fields: Mapping[str, object]) -> object:
        values = {}
        for name, convert, default in rows:
            if name in fields:
                value = fields[name]
                values[name] = value if convert is None else convert(value)
            else:
                values[name] = default
        return structure(**values)

    return build


def _converter(field: FieldSchema) -> Converter | None:
    if field.is_array:
        return _array_converter(_converter(field._replace(is_array=False)))
    if field.wire_type == STRUCTURE:
        return _structure_converter(structure_builder(field.structure))
    return _CONVERTERS.get(field.wire_type)


def _array_converter(convert: Converter | None) -> Callable[[Iterable[object] | None], object]:
    def convert_array(elements: Iterable[object] | None) -> tuple[object, ...] | None:
        if elements is None:
            return None
        return tuple(elements) if convert is None else tuple([convert(element) for element in elements])

    return convert_array


def _structure_converter(build: Builder) -> Callable[[object], object]:
    def convert_structure(value: Any) -> object:
        return value if value is None or is_dataclass(value) else build(value)

    return convert_structure


def _to_timedelta(value: timedelta | int) -> timedelta | int:
    return value if isinstance(value, timedelta) else to_timedelta(value)


def _to_datetime(value: datetime | int | None) -> datetime | int | None:
    return to_datetime(value) if isinstance(value, int) else value


def _to_uuid(value: UUID | None) -> UUID | None:
    return None if value == _ZERO_UUID else value


_CONVERTERS: Final[dict[str, Converter]] = {
    "error_code": to_error_code,
    "timedelta_i32": _to_timedelta,
    "timedelta_i64": _to_timedelta,
    "datetime_i64": _to_datetime,
    "uuid": _to_uuid,
}
