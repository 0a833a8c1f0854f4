"""Settings of a command: fields of frozen dataclasses, declared as every setting of Odradek is.

    @dataclass(frozen=True, kw_only=True)
    class LoadSettings:
        table: OutputSettings
        topic: tuple[str, ...] = setting(words((), "The topics to load."), is_required=True)
        stop: str = setting(text("latest", "The first that is not loaded."))

A field whose type is such a class is a group: its settings are those of the command as well. A flag is the setting's
name with dashes, a key of a YAML file the name with underscores. A setting of words may be repeated.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import Kind, OneOf, Setting
from odradek.foundation.settings.tables import read_setting
from odradek_pipeline.errors import PipelineSettingError

S = TypeVar("S")
_META: Final = "flag"
_MS: Final = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")


@dataclass(frozen=True, slots=True)
class CommandFlag:
    """One setting as a command line and a YAML file have it."""

    setting: Setting
    metavar: str | None
    is_required: bool

    @property
    def name(self) -> str:
        return self.setting.key

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_repeated(self) -> bool:
        return self.setting.kind is Kind.LIST

    @property
    def choices(self) -> tuple[str, ...]:
        allowed = self.setting.allowed
        return allowed.words if isinstance(allowed, OneOf) else ()

    @property
    def shown_default(self) -> str:
        """The default as pages and help texts show it; empty where there is none."""
        default = self.setting.default
        if isinstance(default, bool):
            return "on" if default else "off"
        return "" if default in (None, ()) else str(default)

    def read_value(self, given: Any, source: str) -> object:
        """The value of a flag or of a key, which YAML has read. Raises PipelineSettingError, naming `source`."""
        if self.is_repeated:
            many = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
            return tuple(self._text_of(one, source) for one in many)
        try:
            return read_setting(self.setting, self._text_of(given, source), where=f"{source}: ")
        except SettingError as failure:
            raise PipelineSettingError(str(failure)) from None

    def _text_of(self, given: Any, source: str) -> str:
        """YAML reads 1772366400000 as a number, and `yes` as a boolean."""
        if isinstance(given, bool) and self.setting.kind is Kind.BOOLEAN:
            return "true" if given else "false"
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            return str(given)
        wanted = (
            "a text, as in quotes"
            if self.setting.kind in (Kind.STRING, Kind.LIST)
            else "one value of its kind"
        )
        raise PipelineSettingError(f"{source}: {self.name} is {given!r}; it must be {wanted}")


def setting(
    declared: Setting, *, metavar: str | None = None, key: str = "", is_required: bool = False
) -> Any:
    """A field for a setting, which is named as the field or by `key`. A required one has to be given."""
    declared.name(key)
    metadata = {_META: CommandFlag(declared, metavar, is_required)}
    if is_required:
        return field(metadata=metadata)
    return field(default_factory=lambda: read_setting(declared, None), metadata=metadata)


def duration(default: str, doc: str) -> Setting:
    """A duration as people write it: `500ms`, `10s`, `5m`, `2h`, `1d`, or seconds. In Python it is milliseconds."""
    return Setting(Kind.STRING, default, doc, into=parse_duration_ms)


def parse_duration_ms(given: str) -> int:
    """Raises ValueError with a description of durations."""
    found = _DURATION.fullmatch(given.strip())
    if found is None:
        raise ValueError("a duration, as 500ms, 10s, 5m, 2h or 1d")
    return round(float(found[1]) * _MS[found[2]])


def settings_of(declared: type[Any]) -> dict[str, CommandFlag]:
    """The settings of a class and of its groups by their names, in the order of declaration."""
    return {one.name: one for one in _list_flags(declared)}


def _list_flags(declared: type[Any]) -> Iterator[CommandFlag]:
    hints = typing.get_type_hints(declared)
    for one in fields(declared):
        flag: CommandFlag | None = one.metadata.get(_META)
        if flag is None:
            yield from _list_flags(hints[one.name])
        else:
            if not flag.name:
                flag.setting.name(one.name)
            yield flag


def make_settings(declared: type[S], given: Mapping[str, tuple[Any, str]]) -> S:
    """An object of `declared` from values by name, each with the source it is from. Raises PipelineSettingError.

    A value of None counts as not given.
    """
    known = settings_of(declared)
    values = {
        name: known[name].read_value(value, source)
        for name, (value, source) in given.items()
        if value is not None
    }
    missing = [one.flag for one in known.values() if one.is_required and not values.get(one.name)]
    if missing:
        raise PipelineSettingError(
            f"{' and '.join(missing)} must be given, as a flag or in the file of --config"
        )
    return _build_group(declared, values)


def _build_group(declared: type[S], values: Mapping[str, object]) -> S:
    hints = typing.get_type_hints(declared)
    made: dict[str, Any] = {}
    for one in fields(declared):  # type: ignore[arg-type]
        flag: CommandFlag | None = one.metadata.get(_META)
        if flag is None:
            made[one.name] = _build_group(hints[one.name], values)
        elif flag.name in values:
            made[one.name] = values[flag.name]
    return declared(**made)
