"""The declaration of a setting: a field of a frozen dataclass, with its meaning beside it.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LoadSettings:
        topic: tuple[str, ...] = setting("The topics to load.")

A field's type is one of str, int, float, bool, and `tuple[str, ...]` for a setting that may be repeated. `| None` may
follow str, int and float. A field without a default is required. A flag is the field's name with dashes, a key of a
YAML file the name with underscores.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from typing import Any, Final

from odradek_pipeline.errors import PipelineSettingError

_META: Final = "setting"
_SCALARS: Final = (str, int, float, bool)
SettingsClass = type[Any]


@dataclass(frozen=True, slots=True)
class _Meta:
    meaning: str
    metavar: str | None
    choices: tuple[str, ...]
    at_least: int | None


@dataclass(frozen=True, slots=True)
class PipelineSetting:
    """One declared setting. `kind` is str, int, float or bool; `is_repeated` makes it a tuple of texts."""

    name: str
    kind: type
    is_repeated: bool
    is_required: bool
    default: Any
    meaning: str
    metavar: str | None
    choices: tuple[str, ...]
    at_least: int | None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def shown_default(self) -> str:
        """The default as pages and help texts show it; empty where there is none."""
        if self.is_required or self.default in (None, ()):
            return ""
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return str(self.default)

    def check_value(self, given: Any, source: str) -> Any:
        """`given` as a value of this setting. Raises PipelineSettingError, naming `source`."""
        if self.is_repeated:
            many = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
            return tuple(str(self._check_scalar(one, source)) for one in many)
        return self._check_scalar(given, source)

    def _check_scalar(self, given: Any, source: str) -> Any:
        value: Any = given
        if self.kind in (int, float) and isinstance(given, str):
            value = _parse_number(given, self.kind)
        elif self.kind is float and type(given) is int:
            value = float(given)
        elif self.kind is str and isinstance(given, int | float) and not isinstance(given, bool):
            value = str(given)  # YAML reads 1772366400000 as a number
        is_of_kind: bool = type(value) is self.kind
        if not is_of_kind:
            raise PipelineSettingError(f"{source}: {self.name} is {given!r}; it takes {_KINDS[self.kind]}")
        if self.choices and value not in self.choices:
            raise PipelineSettingError(
                f"{source}: {self.name} is {given!r}; it can be {', '.join(self.choices)}"
            )
        if self.at_least is not None and value < self.at_least:
            raise PipelineSettingError(f"{source}: {self.name} is {given!r}; it is at least {self.at_least}")
        return value


_KINDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def setting(
    meaning: str,
    *,
    default: Any = MISSING,
    metavar: str | None = None,
    choices: Sequence[str] = (),
    at_least: int | None = None,
) -> Any:
    """Declare a field as a setting. Without a default it is required."""
    metadata = {_META: _Meta(meaning, metavar, tuple(choices), at_least)}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def settings_of(declared: SettingsClass) -> dict[str, PipelineSetting]:
    """The settings of a class by their names, in the order of declaration."""
    hints = typing.get_type_hints(declared)
    found = {}
    for one in dataclasses.fields(declared):
        meta: _Meta = one.metadata[_META]
        kind, is_repeated = _kind(hints[one.name])
        found[one.name] = PipelineSetting(
            name=one.name,
            kind=kind,
            is_repeated=is_repeated,
            is_required=one.default is MISSING,
            default=None if one.default is MISSING else one.default,
            meaning=meta.meaning,
            metavar=meta.metavar,
            choices=meta.choices,
            at_least=meta.at_least,
        )
    return found


def make_settings(declared: SettingsClass, given: Mapping[str, tuple[Any, str]]) -> Any:
    """An object of `declared` from values by name, each with the source it is from. Raises PipelineSettingError.

    A value of None counts as not given.
    """
    known = settings_of(declared)
    values = {
        name: known[name].check_value(value, source)
        for name, (value, source) in given.items()
        if value is not None
    }
    missing = [one.flag for one in known.values() if one.is_required and not values.get(one.name)]
    if missing:
        raise PipelineSettingError(
            f"{' and '.join(missing)} must be given, as a flag or in the file of --config"
        )
    return declared(**values)


def _kind(hint: Any) -> tuple[type, bool]:
    if typing.get_origin(hint) is tuple:
        return str, True
    if isinstance(hint, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not type(None))
    assert hint in _SCALARS, f"{hint} is no type of a setting"
    return hint, False


def _parse_number(text: str, kind: type) -> Any:
    try:
        return kind(text.replace("_", ""))
    except ValueError:
        return text
