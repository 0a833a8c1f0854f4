"""A check of the names of fields that messages are built from.

A message leaves out the fields that its version lacks, and a misspelt name with them. With the check on, a name that no
version of the message has raises TypeError. It loads every version, so a broker does without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.schema import (
    DATA,
    REQUEST,
    RESPONSE,
    data_class,
    fields_of,
    message_class,
    versions_of,
    versions_of_data,
)

Names = dict[str, "Names"]

_build: Final = messages.structure_builder


def check_field_names(is_on: bool = True) -> None:
    """Refuse names that no version of a message has, or cease to."""
    vars(messages)["structure_builder"] = _checked_builder if is_on else _build


def _checked_builder(structure: Any) -> messages.Builder:
    build = _build(structure)
    kind = structure.__type__.name
    if kind not in (REQUEST, RESPONSE, DATA):
        return build
    name = structure.__module__.split(".")[-3] if kind == DATA else ApiKey(structure.__api_key__).name
    names = _names(name, kind)

    def build_checked(fields: Mapping[str, object]) -> object:
        _check(names, fields, name if kind == DATA else kind)
        return build(fields)

    return build_checked


@cache
def _names(name: str, kind: str) -> Names:
    names: Names = {}
    if kind == DATA:
        for version in versions_of_data(name):
            _merge(names, data_class(name, version))
    else:
        api_key = ApiKey[name]
        for version in versions_of(api_key):
            _merge(names, message_class(api_key, version, kind))
    return names


def _merge(names: Names, structure: object) -> None:
    for field in fields_of(structure):
        inner = names.setdefault(field.name, {})
        if field.structure is not None:
            _merge(inner, field.structure)


def _check(names: Names, fields: Mapping[str, object], path: str) -> None:
    for name, value in fields.items():
        if name not in names:
            raise TypeError(f"no version of {path} has a field {name!r}; it has {', '.join(sorted(names))}")
        elements = value if isinstance(value, list | tuple) else (value,)
        for element in elements:
            if isinstance(element, Mapping):
                _check(names[name], element, f"{path}.{name}")
