"""Messages of the version asked for, built from keyword arguments.

A handler gives every field that it knows, and those that the requested version lacks are left out. So one construction
serves all versions that differ only in their fields. Nested structures are mappings (or finished instances); arrays are
any iterables; error codes, spans and times may be plain ints (milliseconds). A field not given has the schema's
default, as in Apache Kafka's own generated classes.

A misspelt name would be left out silently, so tests switch `check_field_names` on: then a name that no
version of the message has raises TypeError. It is off in a broker because it loads every version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Protocol, cast
from uuid import UUID

from odradek.protocol.reading import EPOCH, default_of
from odradek.protocol.schema import (
    REQUEST,
    RESPONSE,
    STRUCTURE,
    FieldSchema,
    Structure,
    data_class,
    fields_of,
    message_class,
    versions_of,
    versions_of_data,
)
from odradek.protocol.writing import milliseconds

__all__ = ["Fields", "Message", "check_field_names", "data", "milliseconds", "request", "response"]


class Message(Protocol):
    """A request or response of some version: an instance of one of kio's classes."""

    @property
    def __flexible__(self) -> bool: ...


# The fields of a structure, by name.
Fields = Mapping[str, object]
Builder = Callable[[Mapping[str, object]], object]

_checking = [False]
_ZERO_UUID: Final = UUID(int=0)


def check_field_names(is_on: bool = True) -> None:
    """Refuse names that no version of a message has; for tests."""
    _checking[0] = is_on


def response(api_key: int, api_version: int, /, **fields: object) -> Message:
    """The answer of this version, an instance of kio's class.

    Raises UnsupportedVersion when there is no such version.
    """
    if _checking[0]:
        _check_message(int(api_key), RESPONSE, fields)
    return cast(Message, structure_builder(message_class(api_key, api_version, RESPONSE))(fields))


def request(api_key: int, api_version: int, /, **fields: object) -> Message:
    """The request of this version, an instance of kio's class. Raises as `response`."""
    if _checking[0]:
        _check_message(int(api_key), REQUEST, fields)
    return cast(Message, structure_builder(message_class(api_key, api_version, REQUEST))(fields))


def data(name: str, version: int, /, **fields: object) -> object:
    """A structure that is no request or response, such as `consumer_protocol_assignment`. Raises as
    `response`.
    """
    if _checking[0]:
        _check(_data_names(name), fields, name)
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


def _converter(field: FieldSchema) -> Callable[[Any], object] | None:
    if field.is_array:
        return _array_converter(_converter(field._replace(is_array=False)))
    if field.wire_type == STRUCTURE:
        return _structure_converter(structure_builder(field.structure))
    return _CONVERTERS.get(field.wire_type)


def _array_converter(convert: Callable[[Any], object] | None) -> Callable[[Iterable[object] | None], object]:
    def convert_array(elements: Iterable[object] | None) -> tuple[object, ...] | None:
        if elements is None:
            return None
        return tuple(elements) if convert is None else tuple([convert(element) for element in elements])

    return convert_array


def _structure_converter(build: Builder) -> Callable[[object], object]:
    def convert_structure(value: Any) -> object:
        return value if value is None or is_dataclass(value) else build(value)

    return convert_structure


def _to_error_code(value: int) -> int:
    from kio.schema.errors import ErrorCode

    try:
        return ErrorCode(value)
    except ValueError:
        return value  # of a newer release; `reading` leaves it as it is too


def _to_timedelta(value: timedelta | int) -> timedelta | int:
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(milliseconds=value)
    except OverflowError:
        return value


def _to_datetime(value: datetime | int | None) -> datetime | int | None:
    if not isinstance(value, int):
        return value
    if value == -1:
        return None
    try:
        return EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return value


def _to_uuid(value: UUID | None) -> UUID | None:
    return None if value == _ZERO_UUID else value


_CONVERTERS: Final[dict[str, Callable[[Any], object]]] = {
    "error_code": _to_error_code,
    "timedelta_i32": _to_timedelta,
    "timedelta_i64": _to_timedelta,
    "datetime_i64": _to_datetime,
    "uuid": _to_uuid,
}


# --- the check of names ------------------------------------------------------------

Names = dict[str, "Names"]


@cache
def _message_names(api_key: int, kind: str) -> Names:
    names: Names = {}
    for version in versions_of(api_key):
        _merge(names, message_class(api_key, version, kind))
    return names


@cache
def _data_names(name: str) -> Names:
    names: Names = {}
    for version in versions_of_data(name):
        _merge(names, data_class(name, version))
    return names


def _merge(names: Names, structure: object) -> None:
    for field in fields_of(structure):
        inner = names.setdefault(field.name, {})
        if field.structure is not None:
            _merge(inner, field.structure)


def _check_message(api_key: int, kind: str, fields: Mapping[str, object]) -> None:
    _check(_message_names(api_key, kind), fields, kind)


def _check(names: Names, fields: Mapping[str, object], path: str) -> None:
    for name, value in fields.items():
        if name not in names:
            raise TypeError(f"no version of {path} has a field {name!r}; it has {', '.join(sorted(names))}")
        elements = value if isinstance(value, list | tuple) else (value,)
        for element in elements:
            if isinstance(element, Mapping):
                _check(names[name], element, f"{path}.{name}")
