"""Turns the texts of a mirror's property file into values. Each reader raises ValueError with what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field, fields
from enum import Enum
from typing import Final, TypeVar

_TRUE_FALSE: Final = {"true": True, "false": False}
_META: Final = "declared"

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class NamePatterns:
    """Names and regular expressions with commas between them, as MirrorMaker's `topics`; a name must match whole."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part.strip() for part in text.split(",") if part.strip()]
        try:
            self._found = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None
        except re.error as failure:
            raise ValueError(f"takes regular expressions with commas between them ({failure})") from failure

    def matches(self, name: str) -> bool:
        """Whether one of the patterns is for this name."""
        return self._found is not None and self._found.fullmatch(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePatterns) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"NamePatterns({self.text!r})"


def true_or_false(text: str) -> bool:
    """`true` or `false`, in any case."""
    if text.lower() not in _TRUE_FALSE:
        raise ValueError("takes true or false")
    return _TRUE_FALSE[text.lower()]


def whole_number(lowest: int, highest: int = 2**63 - 1) -> Callable[[str], int]:
    """A reader of numbers between two bounds."""

    def parse(text: str) -> int:
        if not re.fullmatch("-?[0-9]{1,19}", text) or not lowest <= int(text) <= highest:
            bound = f"from {lowest} on" if highest == 2**63 - 1 else f"from {lowest} to {highest}"
            raise ValueError(f"takes a whole number {bound}")
        return int(text)

    return parse


def one_of(kind: type[E]) -> Callable[[str], E]:
    """A reader of the values of an enumeration, in any case."""

    def parse(text: str) -> E:
        for one in kind:
            if one.value == text.lower():
                return one
        raise ValueError(f"takes one of {', '.join(one.value for one in kind)}")

    return parse


def word(pattern: str, what: str) -> Callable[[str], str]:
    """A reader of texts that match a pattern."""

    def parse(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"takes {what}")
        return text

    return parse


class DeclaredSetting:
    """A key with its default as text, its reader and its meaning; beside the field of a settings class."""

    def __init__(self, key: str, default: str, parse: Callable[[str], object], meaning: str) -> None:
        self.key = key
        self.default = default
        self.parse = parse
        self.meaning = meaning


def declared(key: str, default: str, parse: Callable[[str], T], meaning: str) -> T:
    """The field of a settings class that a key gives the value of."""
    one = DeclaredSetting(key, default, parse, meaning)
    return field(default_factory=lambda: parse(default), metadata={_META: one})


def declarations(settings: type) -> dict[str, tuple[str, DeclaredSetting]]:
    """The keys of a settings class, each with the name of its field and its declaration."""
    return {
        one.metadata[_META].key: (one.name, one.metadata[_META])
        for one in fields(settings)
        if _META in one.metadata
    }
