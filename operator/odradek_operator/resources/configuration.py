"""Kafka's own settings as a typed part of a resource: each key a property, so that a wrong one is refused at once.

A key of type int is a number in YAML, or the same number as a text: Kafka's own tools and other operators write texts.
A boolean is true or false, a list is a text with commas.
The value that the operator works with is the text that goes into a properties file or on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.protection import protection_setting_of
from odradek.foundation.settings.broker_settings import find_setting
from odradek.foundation.settings.declaration import EachOf, Kind, OneOf, Range, Setting
from odradek.foundation.settings.protection import missing_protection, refusal_of_key
from odradek.foundation.words import nearest_name
from odradek_operator.resources.schema import INT32_MAX, INT64_MAX, Schema

_BOUNDS = (("minimum", "from"), ("maximum", "to"))
REFUSED_RULE: Final = "false"
# A sign and the digits of 64 bits.
_NUMBER_LENGTH_MAX = 20
# What a number counts, by the end of its key, and an example.
_UNITS = (
    ("bytes", "bytes, as 10737418240 for 10 GiB"),
    ("ms", "milliseconds, as 604800000 for 7 days"),
    ("seconds", "seconds, as 604800 for 7 days"),
    ("minutes", "minutes, as 10080 for 7 days"),
    ("hours", "hours, as 168 for 7 days"),
)
_WHOLE = {Kind.INT: INT32_MAX, Kind.LONG: INT64_MAX, Kind.SHORT: 2**15 - 1}


class Configuration(Schema):
    """Settings by Kafka's key. `settings` are those that may be set, `refused` what to do instead for some others.

    `promising` promise protection that brokers do not have. `protecting` is protection that is declared elsewhere, with
    what to do instead. The definition declares both, with a rule that only a harmless value passes. Otherwise the API
    server would drop these keys without a warning to most clients.

    What is `refused` is declared too, keys that people write for others among it. So the answer is what to do instead,
    and not only that the field is unknown.
    """

    shown = "Kafka's settings by key"

    def __init__(
        self,
        settings: Iterable[Setting],
        *,
        refused: Mapping[str, str] | None = None,
        promising: Iterable[str] = (),
        protecting: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = {setting.key: setting for setting in settings}
        self._protecting = protecting or {}
        self._unset = refused or {}
        self._refused = {**self._unset, **self._protecting}
        self._promising = tuple(promising)

    def parse(self, value: object, path: str, problems: list[str]) -> Mapping[str, str]:
        if not isinstance(value, Mapping):
            problems.append(f"{path}: must be an object of settings by key")
            return {}
        texts: dict[str, str] = {}
        for key, given in value.items():
            if given is None:
                continue
            setting = self.settings.get(key)
            text = _text(given)
            if setting is None:
                if key in self._protecting:
                    if text.strip() not in _harmless_words(find_setting(key)):
                        problems.append(f"{path}: {self._describe_unknown(str(key))}")
                    continue
                broken = missing_protection(str(key), text, find_setting)
                if broken is not None or key not in self._promising:
                    problems.append(f"{path}: {broken or self._describe_unknown(str(key))}")
                continue
            try:
                setting.parse(text)
            except SettingError as error:
                problems.append(
                    f"{path}: {error}{_describe_unit(str(key)) if setting.kind in _WHOLE else ''}"
                )
            texts[key] = text
        return texts

    def _describe_unknown(self, key: str) -> str:
        if key in self._refused:
            return _cannot_be_set(key, self._refused[key])
        nearest = nearest_name(key, self.settings)
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        return f"{key} is not a setting that can be given here{hint}"

    def openapi(self) -> dict[str, object]:
        return {
            "type": "object",
            "properties": dict(
                sorted(
                    [(key, _property(setting)) for key, setting in self.settings.items()]
                    + [(key, _promising_property(key)) for key in self._promising]
                    + [(key, _protecting_property(key, reason)) for key, reason in self._protecting.items()]
                    + [(key, _refuse_property(key, reason)) for key, reason in self._unset.items()]
                )
            ),
        }

    def render(self, value: Any) -> object:
        return {key: _native(self.settings[key], text) for key, text in value.items() if key in self.settings}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _native(setting: Setting, text: str) -> object:
    if setting.kind in _WHOLE:
        return int(text)
    if setting.kind is Kind.DOUBLE:
        return float(text)
    if setting.kind is Kind.BOOLEAN:
        return text.lower() == "true"
    return text


def _cannot_be_set(key: str, reason: str) -> str:
    return f"{key} cannot be set here; {reason}"


def _harmless_words(setting: Setting | None) -> set[str]:
    """The texts that ask for nothing: none at all, and the default."""
    return {"", "" if setting is None else setting.default_text or ""}


def _protecting_property(key: str, reason: str) -> dict[str, object]:
    """Declared, so that it is seen, and refused by a rule unless it is the default."""
    setting = find_setting(key)
    schema: dict[str, object] = {"description": f"Not set here: {reason}."}
    if setting is not None and setting.kind is Kind.BOOLEAN:
        schema |= {"type": "boolean"}
        harmless = f"self == {'true' if setting.default else 'false'}"
    else:
        schema |= {"type": "string", "maxLength": 4096}
        harmless = f"self in [{', '.join(repr(word) for word in sorted(_harmless_words(setting)))}]"
    schema["x-kubernetes-validations"] = [{"rule": harmless, "message": _cannot_be_set(key, reason)}]
    return dict(sorted(schema.items()))


def _refuse_property(key: str, reason: str) -> dict[str, object]:
    """Declared, so that it is seen, and refused."""
    schema: dict[str, object] = {
        "x-kubernetes-validations": [{"rule": REFUSED_RULE, "message": _cannot_be_set(key, reason)}]
    }
    if key.endswith((".enable", ".disable")):
        return {"type": "boolean", **schema}
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        **schema,
    }


def _promising_property(key: str) -> dict[str, object]:
    """Declared, so that it is seen, and refused by a rule unless its value promises nothing."""
    promise = protection_setting_of(key)
    assert promise is not None, key
    setting = find_setting(key)
    kind = Kind.STRING if setting is None else setting.kind
    default = None if setting is None else setting.default
    schema: dict[str, object] = {"description": f"Not kept: asks that {promise.asks_for}."}
    if kind in _WHOLE:
        schema |= {"type": "integer", "format": "int64" if kind is Kind.LONG else "int32"}
        harmless = f"self == {default}"
    elif kind is Kind.BOOLEAN or promise.harmless in ("true", "false"):
        schema |= {"type": "boolean"}
        is_harmless = default if promise.harmless == "" else promise.harmless == "true"
        harmless = f"self == {'true' if is_harmless else 'false'}"
    else:
        schema |= {"type": "string", "maxLength": 4096}
        words = {"", promise.harmless, "" if setting is None else setting.default_text or ""}
        harmless = f"self in [{', '.join(repr(word) for word in sorted(words))}]"
    schema["x-kubernetes-validations"] = [{"rule": harmless, "message": refusal_of_key(promise, key)}]
    return dict(sorted(schema.items()))


def _property(setting: Setting) -> dict[str, object]:
    schema: dict[str, object] = {"description": setting.doc}
    allowed = setting.allowed
    if setting.kind in _WHOLE:
        return _number_or_text(schema, setting.key, allowed, most=_WHOLE[setting.kind])
    if setting.kind is Kind.DOUBLE:
        schema |= {"type": "number"}
    elif setting.kind is Kind.BOOLEAN:
        return schema | {"type": "boolean"}
    else:
        schema |= {"type": "string", "maxLength": 4096}
    if isinstance(allowed, Range):
        schema |= _bounds(schema, allowed)
    elif isinstance(allowed, OneOf) and setting.kind is not Kind.LIST and not allowed.any_case:
        schema["enum"] = list(allowed.words)
    elif isinstance(allowed, EachOf):
        schema["pattern"] = "^(({0})(,({0}))*)?$".format("|".join(allowed.words))
    return dict(sorted(schema.items()))


def _number_or_text(schema: dict[str, object], key: str, allowed: object, *, most: int) -> dict[str, object]:
    """A whole number, or its text. The bounds of the schema hold for numbers, the rule for texts.

    The API server reads bounds as doubles, so one of 64 bits cannot be written; texts of more digits are no int there.
    A text that is no number at all fails the rule too, and its message says what is meant.
    """
    if most < INT64_MAX:
        schema["maximum"], schema["minimum"] = most, -most - 1
    if isinstance(allowed, Range):
        schema |= _bounds(schema, allowed)
    within = [
        f"int(self) {sign} {schema[bound]}"
        for bound, sign in (("minimum", ">="), ("maximum", "<="))
        if bound in schema
    ] or ["int(self) == int(self)"]
    words = [f"{word} {schema[bound]}" for bound, word in _BOUNDS if bound in schema]
    schema |= {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": _NUMBER_LENGTH_MAX,
        "x-kubernetes-validations": [
            {
                # Not with a pattern in it: the API server takes such a text for as long as a request may be.
                "rule": f"type(self) != string || ({' && '.join(within)})",
                "message": " ".join(["must be a whole number", *words]) + _describe_unit(key),
            }
        ],
    }
    return dict(sorted(schema.items()))


def _describe_unit(key: str) -> str:
    unit = next((unit for end, unit in _UNITS if key.rpartition(".")[2] == end), None)
    return "" if unit is None else f": {unit}"


def _bounds(schema: dict[str, object], allowed: Range) -> dict[str, object]:
    exception = allowed.exception
    bounds: dict[str, object] = {
        "minimum": allowed.minimum if exception is None else min(allowed.minimum, exception)
    }
    if allowed.maximum is not None:
        bounds["maximum"] = allowed.maximum
    if exception is not None and exception < allowed.minimum - 1:
        bounds["description"] = f"{schema['description']} {str(allowed).capitalize()}."
    return bounds
