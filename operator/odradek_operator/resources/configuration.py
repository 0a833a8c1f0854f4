"""Kafka's own settings as a typed part of a resource: each key a property, so that a wrong one is refused at once.

A key of type int is a number in YAML, a boolean is true or false, a list is a text with commas, as Kafka writes them.
The value that the operator works with is the text that goes into a properties file or on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.foundation.errors import SettingError
from odradek.foundation.setting_types import EachOf, Kind, OneOf, Range, Setting, nearest_key
from odradek_operator.resources.schema import INT32_MAX, INT64_MAX, Schema

_WHOLE = {Kind.INT: INT32_MAX, Kind.LONG: INT64_MAX, Kind.SHORT: 2**15 - 1}


class Configuration(Schema):
    """Settings by Kafka's key. `settings` are those that may be set, `refused` what to do instead for some others."""

    shown = "Kafka's settings by key"

    def __init__(self, settings: Iterable[Setting], *, refused: Mapping[str, str] | None = None) -> None:
        self.settings = {setting.key: setting for setting in settings}
        self._refused = refused or {}

    def parse(self, value: object, path: str, problems: list[str]) -> Mapping[str, str]:
        if not isinstance(value, Mapping):
            problems.append(f"{path}: must be an object of settings by key")
            return {}
        texts: dict[str, str] = {}
        for key, given in value.items():
            if given is None:
                continue
            setting = self.settings.get(key)
            if setting is None:
                problems.append(f"{path}: {self._unknown(str(key))}")
                continue
            text = _text(given)
            try:
                setting.parse(text)
            except SettingError as error:
                problems.append(f"{path}: {error}")
            texts[key] = text
        return texts

    def _unknown(self, key: str) -> str:
        if key in self._refused:
            return f"{key} cannot be set here; {self._refused[key]}"
        nearest = nearest_key(key, self.settings)
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        return f"{key} is not a setting that can be given here{hint}"

    def openapi(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {key: _property(setting) for key, setting in sorted(self.settings.items())},
        }

    def render(self, value: Any) -> Any:
        return {key: _native(self.settings[key], text) for key, text in value.items() if key in self.settings}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _native(setting: Setting, text: str) -> Any:
    if setting.kind in _WHOLE:
        return int(text)
    if setting.kind is Kind.DOUBLE:
        return float(text)
    if setting.kind is Kind.BOOLEAN:
        return text.lower() == "true"
    return text


def _property(setting: Setting) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": setting.doc}
    if setting.kind in _WHOLE:
        schema |= {"type": "integer", "format": "int64" if setting.kind is Kind.LONG else "int32"}
    elif setting.kind is Kind.DOUBLE:
        schema |= {"type": "number"}
    elif setting.kind is Kind.BOOLEAN:
        return schema | {"type": "boolean"}
    else:
        schema |= {"type": "string", "maxLength": 4096}
    allowed = setting.allowed
    if isinstance(allowed, Range):
        exception = allowed.exception
        schema["minimum"] = allowed.minimum if exception is None else min(allowed.minimum, exception)
        if allowed.maximum is not None:
            schema["maximum"] = allowed.maximum
        if allowed.exception is not None and allowed.exception < allowed.minimum - 1:
            schema["description"] += f" {str(allowed).capitalize()}."
    elif isinstance(allowed, OneOf) and setting.kind is not Kind.LIST and not allowed.any_case:
        schema["enum"] = list(allowed.words)
    elif isinstance(allowed, EachOf):
        schema["pattern"] = "^(({0})(,({0}))*)?$".format("|".join(allowed.words))
    return dict(sorted(schema.items()))
