"""The values that a field of a resource may hold: one object that checks a value, and that writes its OpenAPI schema.

The API server checks by the schema, and the operator checks again: a definition on the server may be an older one. A
check never raises. It notes what is wrong, with the path, in a list, so that one error names every mistake. Structures
made of fields are in `structure`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1

# What Kubernetes takes for an amount, as 500m, 2Gi or 1e3.
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][0-9]+)?$"
_QUANTITY_UNITS: Final = {
    "": 1, "m": 1e-3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
DURATION_PATTERN: Final = r"^([0-9]+(ms|s|m|h|d))+$"
_DURATION_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


# Not with a pattern in it: the API server takes a text that may be a number for as long as a request may be.
QUANTITY_RULE: Final = "type(self) != string || isQuantity(self)"
_QUANTITY_LENGTH_MAX: Final = 32
_QUANTITY_MESSAGE: Final = "must be a quantity such as 500m, 2Gi or 10G, with no B behind its unit"
_DURATION_MESSAGE: Final = "must be a duration such as 500ms, 30s or 1h30m: its units are ms, s, m, h and d"


class Schema(ABC):
    """The rule for one value. `shown` is the type's name on the reference page."""

    shown: str = ""

    @abstractmethod
    def parse(self, value: object, path: str, problems: list[str]) -> object:
        """The checked value. What is wrong is added to `problems`; the returned value then means nothing."""

    @abstractmethod
    def openapi(self) -> dict[str, object]:
        """The structural schema, without a description."""

    def render(self, value: object) -> object:
        """The value as JSON has it: what `parse` would take."""
        return value


class Text(Schema):
    """A text. `pattern` is checked as a whole match and must be anchored, as the API server searches."""

    shown = "text"

    def __init__(
        self,
        *,
        pattern: str | None = None,
        min_length: int = 0,
        max_length: int = 1024,
        form: str | None = None,
        what: str | None = None,
    ) -> None:
        self._pattern = pattern
        self._min_length = min_length
        self._max_length = max_length
        self._format = form
        self._what = what

    def parse(self, value: object, path: str, problems: list[str]) -> str:
        if not isinstance(value, str):
            problems.append(f"{path}: must be a text, not {_type_of(value)}")
            return ""
        if not self._min_length <= len(value) <= self._max_length:
            problems.append(
                f"{path}: has {len(value)} characters; allowed are {self._min_length} to {self._max_length}"
            )
        elif self._pattern is not None and re.search(self._pattern, value) is None:
            problems.append(f"{path}: {value!r} is not {self._what or f'of the form {self._pattern}'}")
        return value

    def openapi(self) -> dict[str, object]:
        schema: dict[str, object] = {"type": "string", "maxLength": self._max_length}
        if self._min_length:
            schema["minLength"] = self._min_length
        if self._pattern is not None and self._what is not None:
            # A pattern alone would be the whole message of the API server.
            schema |= _validation(f"self.matches(r'{self._pattern}')", f"must be {self._what}")
        elif self._pattern is not None:
            schema["pattern"] = self._pattern
        if self._format is not None:
            schema["format"] = self._format
        return schema


class Choice(Schema):
    """One word of an enumeration."""

    def __init__(self, words: type[StrEnum]) -> None:
        self._words = words
        self.shown = ", ".join(f"`{word.value}`" for word in words)

    def parse(self, value: object, path: str, problems: list[str]) -> StrEnum | None:
        try:
            return self._words(str(value))
        except ValueError:
            problems.append(
                f"{path}: {value!r} is not one of {', '.join(word.value for word in self._words)}"
            )
            return None

    def openapi(self) -> dict[str, object]:
        return {"type": "string", "enum": [word.value for word in self._words]}

    def render(self, value: object) -> object:
        return str(value)


class Whole(Schema):
    """A whole number from `minimum` to `maximum`."""

    shown = "whole number"

    def __init__(self, *, minimum: int = 0, maximum: int = INT32_MAX) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def parse(self, value: object, path: str, problems: list[str]) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            problems.append(f"{path}: must be a whole number, not {_type_of(value)}")
            return 0
        if not self._minimum <= value <= self._maximum:
            problems.append(f"{path}: {value} is not between {self._minimum} and {self._maximum}")
        return value

    def openapi(self) -> dict[str, object]:
        schema: dict[str, object] = {
            "type": "integer",
            "format": "int32" if self._minimum >= -INT32_MAX - 1 and self._maximum <= INT32_MAX else "int64",
            "minimum": self._minimum,
        }
        if self._maximum not in (INT32_MAX, INT64_MAX):
            schema["maximum"] = self._maximum
        return schema


class Number(Schema):
    """A number that may have a fraction."""

    shown = "number"

    def __init__(self, *, minimum: float | None = None, maximum: float | None = None) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def parse(self, value: object, path: str, problems: list[str]) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(f"{path}: must be a number, not {_type_of(value)}")
            return 0.0
        low, high = self._minimum, self._maximum
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = [
                f"at least {low}" if low is not None else "",
                f"at most {high}" if high is not None else "",
            ]
            problems.append(f"{path}: {value} is not {' and '.join(filter(None, bounds))}")
        return float(value)

    def openapi(self) -> dict[str, object]:
        schema: dict[str, object] = {"type": "number"}
        if self._minimum is not None:
            schema["minimum"] = self._minimum
        if self._maximum is not None:
            schema["maximum"] = self._maximum
        return schema


class Flag(Schema):
    """true or false."""

    shown = "true or false"

    def parse(self, value: object, path: str, problems: list[str]) -> bool:
        if not isinstance(value, bool):
            problems.append(f"{path}: must be true or false, not {_type_of(value)}")
            return False
        return value

    def openapi(self) -> dict[str, object]:
        return {"type": "boolean"}


class Quantity(Schema):
    """An amount as Kubernetes writes it, as 500m, 2Gi or a plain number; kept as text."""

    shown = "quantity"

    def parse(self, value: object, path: str, problems: list[str]) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or re.search(QUANTITY_PATTERN, text) is None:
            problems.append(f"{path}: {value!r} {_QUANTITY_MESSAGE}")
            return "0"
        return text

    def openapi(self) -> dict[str, object]:
        return {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": _QUANTITY_LENGTH_MAX,
            **_validation(QUANTITY_RULE, _QUANTITY_MESSAGE),
        }


class Duration(Schema):
    """A span of time as 500ms, 30s or 1h30m; kept as milliseconds."""

    shown = "duration"

    def parse(self, value: object, path: str, problems: list[str]) -> int:
        if not isinstance(value, str) or re.search(DURATION_PATTERN, value) is None:
            problems.append(f"{path}: {value!r} {_DURATION_MESSAGE}")
            return 0
        return sum(
            int(number) * _DURATION_UNITS_MS[unit]
            for number, unit in re.findall(r"([0-9]+)(ms|[smhd])", value)
        )

    def openapi(self) -> dict[str, object]:
        rule = f"self.matches(r'{DURATION_PATTERN}')"
        return {"type": "string", "maxLength": 64, **_validation(rule, _DURATION_MESSAGE)}

    def render(self, value: Any) -> object:
        for unit in ("d", "h", "m", "s"):
            if value and value % _DURATION_UNITS_MS[unit] == 0:
                return f"{value // _DURATION_UNITS_MS[unit]}{unit}"
        return f"{value}ms"


class Open(Schema):
    """An object of Kubernetes' own, as affinity: the operator hands it on and does not look inside."""

    def __init__(self, shown: str = "object") -> None:
        self.shown = shown

    def parse(self, value: object, path: str, problems: list[str]) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            problems.append(f"{path}: must be an object, not {_type_of(value)}")
            return {}
        return value

    def openapi(self) -> dict[str, object]:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class OpenList(Schema):
    """A list of objects of Kubernetes' own, as tolerations."""

    def __init__(self, shown: str = "list of objects", *, max_items: int = 64) -> None:
        self.shown = shown
        self._max_items = max_items

    def parse(self, value: object, path: str, problems: list[str]) -> tuple[Mapping[str, object], ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            problems.append(f"{path}: must be a list, not {_type_of(value)}")
            return ()
        if not all(isinstance(item, Mapping) for item in value):
            problems.append(f"{path}: must be a list of objects")
            return ()
        return tuple(value)

    def openapi(self) -> dict[str, object]:
        item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "array", "items": item, "maxItems": self._max_items}

    def render(self, value: Any) -> object:
        return list(value)


def _validation(rule: str, message: str) -> dict[str, object]:
    """A rule that the API server checks, with a message of ours."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


def quantity_value(text: str) -> float:
    """A quantity as a number: "2Gi" is 2147483648. Raises ValueError for what is none."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)([0-9]*)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m or 2Gi")
    number, unit, exponent = match.groups()
    if exponent:
        return float(number) * 10.0 ** int(exponent)
    if unit not in _QUANTITY_UNITS:
        raise ValueError(f"{text!r} is not a quantity: {unit} is not a unit that Kubernetes knows")
    return float(number) * _QUANTITY_UNITS[unit]


def _type_of(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case _:
            return "a list"
