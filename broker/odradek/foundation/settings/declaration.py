"""The declaration of a setting: kind, default, allowed values, meaning, and the scope of a change at run time. One
declaration serves the reading of `server.properties`, DescribeConfigs and AlterConfigs, and
`docs/reference/settings.md`. A value is text in a properties file and on the wire, and a Python value in the broker.
`Setting.parse` and `Setting.text` convert them. `broker_settings` has the broker's declarations. Clients, mirrors and
the pipeline declare theirs in tables (`setting_tables`) or as fields of a class (`setting_fields`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Final, Never, Protocol, TypeVar

from odradek.foundation.errors import SettingError
from odradek.foundation.words import nearest_name

V = TypeVar("V")
# What a setting has in Python. Each declares its own type, where its class names it.
SettingValue = Any

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class Kind(IntEnum):
    """The type of a value; the numbers are DescribeConfigs' own."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """The scope of a change while the broker runs. The values are the words of the reference page."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Allowed(Protocol):
    """A rule for values. `check` returns None for an allowed value, else a description of the allowed ones."""

    def check(self, value: SettingValue, /) -> str | None: ...

    def __str__(self) -> str: ...


class Range:
    """Numbers from `minimum` to `maximum`, or the one `exception` (as -1 for "unlimited")."""

    __slots__ = ("exception", "maximum", "minimum")

    def __init__(
        self, minimum: float, maximum: float | None = None, *, exception: float | None = None
    ) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.exception = exception

    def check(self, value: float) -> str | None:
        if value == self.exception and self.exception is not None:
            return None
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            return str(self)
        return None

    def __str__(self) -> str:
        if self.maximum is None:
            bound = f"at least {self.minimum}"
        else:
            bound = f"between {self.minimum} and {self.maximum}"
        return bound if self.exception is None else f"{bound}, or {self.exception}"


class OneOf:
    """One of a few words; `any_case` ignores case."""

    __slots__ = ("any_case", "words")

    def __init__(self, *words: str, any_case: bool = False) -> None:
        self.words = words
        self.any_case = any_case

    def check(self, value: str) -> str | None:
        if value in self.words or (self.any_case and value.lower() in {word.lower() for word in self.words}):
            return None
        nearest = nearest_name(value, self.words)
        return f"{self}" if nearest is None else f"{self} (did you mean {nearest}?)"

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


class EachOf:
    """A list whose every word is one of a few."""

    __slots__ = ("words",)

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: Sequence[str]) -> str | None:
        return None if all(word in self.words for word in value) else str(self)

    def __str__(self) -> str:
        return f"a list of {', '.join(self.words)}"


class Matching:
    """Texts that a pattern matches whole; `what` describes them."""

    __slots__ = ("pattern", "what")

    def __init__(self, pattern: str, what: str) -> None:
        self.pattern = pattern
        self.what = what

    def check(self, value: str) -> str | None:
        return None if re.fullmatch(self.pattern, value) else self.what

    def __str__(self) -> str:
        return self.what


class NotEmpty:
    """Any text but the empty one."""

    __slots__ = ()

    def check(self, value: str) -> str | None:
        return None if value else str(self)

    def __str__(self) -> str:
        return "a text that is not empty"


class ThrottledReplicas:
    """`*`, or a list of partition:broker pairs."""

    __slots__ = ()

    def check(self, value: tuple[str, ...]) -> str | None:
        if value in ((), ("*",)):
            return None
        for pair in value:
            partition, colon, broker = pair.partition(":")
            if not (colon and partition.isdecimal() and broker.isdecimal()):
                return str(self)
        return None

    def __str__(self) -> str:
        return "* or a list of partition:broker pairs such as 0:1,1:2"


class CordonedDirectories:
    """`*` for a broker that accepts no new replicas, or the log directories in which it makes no new logs."""

    __slots__ = ()

    def check(self, value: tuple[str, ...]) -> str | None:
        return None if value == ("*",) or all(one.startswith("/") for one in value) else str(self)

    def __str__(self) -> str:
        return "* alone, or absolute paths"


_WHOLE_NUMBER_BOUNDS: Final = {Kind.SHORT: 2**15 - 1, Kind.INT: INT32_MAX, Kind.LONG: INT64_MAX}


class Setting:
    """One key: its kind, default, allowed values, scope of a change, and meaning. `attribute` is its name in Python.
    `synonyms` are the keys that give the value when this one is absent, in order of preference, each in its own unit.
    `used` is false for keys of Kafka's that this broker has no use for. `into` makes another value of the read one, and
    raises ValueError with a description of the values that it takes.
    """

    def __init__(
        self,
        kind: Kind,
        default: object,
        doc: str,
        *,
        allowed: Allowed | None = None,
        scope: Scope = Scope.READ_ONLY,
        key: str = "",
        synonyms: tuple[str, ...] = (),
        used: bool = True,
        internal: bool = False,
        into: Callable[[SettingValue], object] | None = None,
    ) -> None:
        self.kind = kind
        self.default = default
        self.doc = doc
        self.allowed = allowed
        self.scope = scope
        self.synonyms = synonyms
        self.used = used
        self.internal = internal
        self.into = into
        self.name(key)
        self.default_text = self.text(default)

    def name(self, key: str) -> None:
        """Give the setting its key, as `log.segment.bytes`."""
        self.key = key
        self.attribute = key.replace(".", "_").replace("-", "_")

    def __set_name__(self, owner: type, attribute: str) -> None:
        if not self.key:
            self.name(attribute.replace("_", "."))

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret that no answer and no log line may show."""
        return self.kind is Kind.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        return self.scope is not Scope.READ_ONLY

    def parse(self, text: str) -> object:
        """The value of `text`. Raises SettingError naming key, value and the allowed values."""
        try:
            return self.read(text)
        except ValueError as wanted:
            raise self.refusal(text, str(wanted)) from None

    def read(self, text: str) -> object:
        """The value of `text`. Raises ValueError with a description of the allowed values."""
        try:
            value = _parse(self.kind, text.strip())
        except ValueError:
            raise ValueError(_KIND_TEXT[self.kind]) from None
        wanted = None if self.allowed is None else self.allowed.check(value)
        if wanted is not None:
            raise ValueError(wanted)
        return value if self.into is None else self.into(value)

    def check(self, value: V, *, text: str | None = None) -> V:
        """The value itself, when it is allowed. Raises SettingError when it is not."""
        if self.allowed is not None and value is not None:
            wanted = self.allowed.check(value)
            if wanted is not None:
                raise self.refusal(self.text(value) if text is None else text, wanted)
        return value

    def refusal(self, text: str | None, wanted: str) -> SettingError:
        """The error for a value that must be `wanted` instead."""
        shown = "[hidden]" if self.is_sensitive else text
        return SettingError(f"Invalid value {shown} for configuration {self.key}: it must be {wanted}")

    def text(self, value: object) -> str | None:
        """The value as text, as Kafka writes it; None stays None."""
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return java_double(value)
        return str(value)


_KIND_TEXT: Final = {
    Kind.BOOLEAN: "true or false",
    Kind.SHORT: f"a whole number of at most {2**15 - 1}",
    Kind.INT: f"a whole number of at most {INT32_MAX}",
    Kind.LONG: f"a whole number of at most {INT64_MAX}",
    Kind.DOUBLE: "a number",
}


def _parse(kind: Kind, text: str) -> object:
    bound = _WHOLE_NUMBER_BOUNDS.get(kind)
    if bound is not None:
        # int() also takes "1_000" and digits of other scripts, which Kafka refuses.
        if "_" in text or not text.isascii():
            raise ValueError(text)
        number = int(text)
        if not -bound - 1 <= number <= bound:
            raise ValueError(text)
        return number
    if kind is Kind.BOOLEAN:
        return (
            {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _bad(text)
        )
    if kind is Kind.DOUBLE:
        number_with_point = float(text)
        return _bad(text) if number_with_point != number_with_point else number_with_point
    if kind is Kind.LIST:
        return tuple(word.strip() for word in text.split(",")) if text else ()
    return text


def _bad(text: str) -> Never:
    raise ValueError(text)


def java_double(value: float) -> str:
    """A double in Java's notation: 0.5, 1.0E10, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = mantissa.rstrip("0").rstrip(".").lstrip("-")
        exponent = str(len(digits.partition(".")[0]) - 1)
        mantissa = f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:].replace('.', '').rstrip('0') or '0'}"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


# --- declarations, one function per kind so that a table reads as columns -------------------------------------------


def _range(minimum: float | None, maximum: float | None, exception: float | None = None) -> Range | None:
    return None if minimum is None else Range(minimum, maximum, exception=exception)


def integer(
    default: int | None,
    doc: str,
    minimum: int | None = None,
    maximum: int | None = None,
    *,
    exception: int | None = None,
    scope: Scope = Scope.READ_ONLY,
    synonyms: tuple[str, ...] = (),
    kind: Kind = Kind.INT,
    internal: bool = False,
) -> SettingValue:
    """A whole number of 32 bits."""
    allowed = _range(minimum, maximum, exception)
    return Setting(kind, default, doc, allowed=allowed, scope=scope, synonyms=synonyms, internal=internal)


def long(
    default: int | None,
    doc: str,
    minimum: int | None = None,
    *,
    scope: Scope = Scope.READ_ONLY,
    synonyms: tuple[str, ...] = (),
    internal: bool = False,
) -> SettingValue:
    """A whole number of 64 bits."""
    return integer(default, doc, minimum, scope=scope, synonyms=synonyms, kind=Kind.LONG, internal=internal)


def double(
    default: float,
    doc: str,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    scope: Scope = Scope.READ_ONLY,
) -> SettingValue:
    """A number with a decimal point."""
    return Setting(Kind.DOUBLE, default, doc, allowed=_range(minimum, maximum), scope=scope)


def boolean(default: bool, doc: str, *, scope: Scope = Scope.READ_ONLY) -> SettingValue:
    """true or false."""
    return Setting(Kind.BOOLEAN, default, doc, scope=scope)


def text(
    default: str | None,
    doc: str,
    allowed: Allowed | None = None,
    *,
    scope: Scope = Scope.READ_ONLY,
    into: Callable[[str], object] | None = None,
) -> SettingValue:
    """A text, trimmed."""
    return Setting(Kind.STRING, default, doc, allowed=allowed, scope=scope, into=into)


def member(default: Enum, doc: str) -> Setting:
    """A member of an enumeration by its value, in any case."""
    kind = type(default)
    allowed = OneOf(*(one.value for one in kind), any_case=True)
    return Setting(Kind.STRING, default.value, doc, allowed=allowed, into=lambda value: kind(value.lower()))


def java_class(default: str | None, doc: str, allowed: Allowed) -> SettingValue:
    """The name of one of Kafka's classes, which stands for what it does there. It is never loaded."""
    return Setting(Kind.CLASS, default, doc, allowed=allowed)


def password(doc: str, *, scope: Scope = Scope.READ_ONLY) -> SettingValue:
    """A secret text, which no answer and no log line shows."""
    return Setting(Kind.PASSWORD, None, doc, scope=scope)


def words(
    default: tuple[str, ...] | None,
    doc: str,
    allowed: Allowed | None = None,
    *,
    scope: Scope = Scope.READ_ONLY,
) -> SettingValue:
    """A list of words parted by commas; a tuple in Python."""
    return Setting(Kind.LIST, default, doc, allowed=allowed, scope=scope)
