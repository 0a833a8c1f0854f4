"""Java's regular expressions in Python's words, for names of topics: letters and digits of ASCII, `.`, `_` and `-`.

The members of a group may be Java programs, and all have to choose the same topics. So a filter means what Java's
`Pattern` makes of it. Character classes become lists of the characters that they hold, with Java's unions,
intersections and properties worked out. What Java itself refuses is refused, and so is what its versions read
differently.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from typing import Final

_ALL: Final = frozenset(map(chr, range(128)))
_LETTERS: Final = frozenset(string.ascii_letters)
_DIGITS: Final = frozenset(string.digits)
_SPACES: Final = frozenset(" \t\n\x0b\f\r")
_CLASSES: Final = {"d": _DIGITS, "w": _LETTERS | _DIGITS | {"_"}, "s": _SPACES,
                   "h": frozenset(" \t"), "v": frozenset("\n\x0b\f\r")}  # fmt: skip
_PROPERTIES: Final = {
    "Lower": frozenset(string.ascii_lowercase), "Upper": frozenset(string.ascii_uppercase), "ASCII": _ALL,
    "Alpha": _LETTERS, "Digit": _DIGITS, "Alnum": _LETTERS | _DIGITS, "Punct": frozenset(string.punctuation),
    "Graph": _LETTERS | _DIGITS | frozenset(string.punctuation),
    "Print": _LETTERS | _DIGITS | frozenset(string.punctuation + " "), "Blank": frozenset(" \t"),
    "Cntrl": frozenset(map(chr, (*range(32), 127))), "XDigit": frozenset(string.hexdigits), "Space": _SPACES,
    "IsAlphabetic": _LETTERS, "IsDigit": _DIGITS, "IsLowercase": frozenset(string.ascii_lowercase),
    "IsUppercase": frozenset(string.ascii_uppercase), "IsLatin": _LETTERS, "InBasicLatin": _ALL,
    "javaLowerCase": frozenset(string.ascii_lowercase), "javaUpperCase": frozenset(string.ascii_uppercase),
}  # fmt: skip
_CASED: Final = ("Lower", "Upper", "Ll", "Lu")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_COUNT: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*(?:-[a-zA-Z]+)?)([:)])")
_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"\{(\w+)\}|([A-Z])")
_CHARACTER: Final = re.compile(
    r"0(?P<octal>[0-3]?[0-7]{1,2})|x(?P<hex>[0-9a-fA-F]{2})|x\{(?P<long>[0-9a-fA-F]{1,6})\}|u(?P<unit>[0-9a-fA-F]{4})"
)


def translate_expression(java: str) -> re.Pattern[str]:
    """The same expression for `fullmatch` on names of topics. Raises ValueError, which says what is wrong."""
    parser = _Parser(java)
    try:
        python = parser.read_alternatives()
        if parser.at < len(java):
            raise ValueError("a ) closes nothing")
        return re.compile(python, re.ASCII)
    except (re.error, OverflowError, RecursionError) as failure:
        raise ValueError(str(failure)) from failure


class _Parser:
    """Reads an expression from left to right, one alternative or class at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._ignores_case = False

    def _next(self) -> str:
        if self.at >= len(self._text):
            raise ValueError("it ends too early")
        self.at += 1
        return self._text[self.at - 1]

    def _sees(self, text: str) -> bool:
        return self._text.startswith(text, self.at)

    def _take(self, expression: re.Pattern[str], what: str) -> re.Match[str]:
        found = expression.match(self._text, self.at)
        if found is None:
            raise ValueError(f"{what} at position {self.at} is none of Java's")
        self.at = found.end()
        return found

    # --- groups and alternatives ------------------------------------------------------------------------------------

    def read_alternatives(self) -> str:
        """Up to the `)` of this group, or the end."""
        outer = self._ignores_case
        flags: list[str] = []  # as they are set within this group: they hold to its end, over `|` too
        parts: list[str] = []
        while self.at < len(self._text) and not self._sees(")"):
            character = self._next()
            if character == "|":
                parts += [")" * len(flags), "|", *flags]
            elif character == "(":
                self.at -= 1
                parts.append(self._read_group(flags))
            elif character == "{":
                self.at -= 1
                parts.append(self._take(_COUNT, "the count").group() + self._read_kind())
            elif character in "*+?":
                parts.append(character + self._read_kind())
            elif character in ".^$":
                parts.append(character)
            elif character == "[":
                parts.append(_class_of(self._read_class()))
            elif character == "\\":
                parts.append(self._read_escape())
            else:
                parts.append(re.escape(character))
        self._ignores_case = outer
        return "".join(parts) + ")" * len(flags)

    def _read_kind(self) -> str:
        """Of a quantifier: reluctant, possessive, or neither."""
        return self._next() if self._sees("?") or self._sees("+") else ""

    def _read_group(self, flags: list[str]) -> str:
        for head in ("(?=", "(?!", "(?<=", "(?<!", "(?>"):
            if self._sees(head):
                self.at += len(head)
                return head + self._read_rest()
        if self._sees("(?<"):
            self.at += 2
            return f"(?P<{self._take(_NAME, 'the name of a group').group(1)}>" + self._read_rest()
        if not self._sees("(?"):
            self.at += 1
            return "(" + self._read_rest()
        given, end = self._take(_FLAGS, "the group").groups()
        outer = self._ignores_case
        head = self._set_flags(given)
        if end == ":":
            inner = self._read_rest()
            self._ignores_case = outer
            return head + inner
        flags.append(head)
        return head

    def _read_rest(self) -> str:
        inner = self.read_alternatives()
        if self.at >= len(self._text):
            raise ValueError("a ( is not closed")
        self.at += 1
        return inner + ")"

    def _set_flags(self, given: str) -> str:
        on, _, off = given.partition("-")
        if set(on + off) - set("idmsuU"):
            raise ValueError(f"the flags {given!r} are not i, d, m, s, u and U alone")
        if "i" in on + off:
            self._ignores_case = "i" in on and "i" not in off
        kept = ["".join(flag for flag in "ims" if flag in some) for some in (on, off)]
        return "(?" + kept[0] + ("-" + kept[1] if kept[1] else "") + ":"

    # --- single characters ------------------------------------------------------------------------------------------

    def _read_escape(self) -> str:
        character = self._next()
        if character in "bBA":
            return "\\" + character
        if character in "zZ":
            return r"\Z"
        if character == "G":
            return r"\A"
        if character == "R":
            return r"(?:\r\n|[\n\x0b\f\r])"
        if character == "X":
            return r"[\s\S]"
        if character == "Q":
            return re.escape(self._read_quoted())
        if character == "k":
            return f"(?P={self._take(_NAME, 'the name of a group').group(1)})"
        if character in "123456789":
            if self.at < len(self._text) and self._text[self.at].isdigit():
                raise ValueError("a number of a group has one digit here")
            return f"(?:\\{character})"
        found = self._read_set(character)
        return _class_of(found) if found is not None else re.escape(self._read_character(character))

    def _read_quoted(self) -> str:
        end = self._text.find(r"\E", self.at)
        quoted = self._text[self.at : end if end >= 0 else None]
        self.at = end + 2 if end >= 0 else len(self._text)
        return quoted

    def _read_set(self, character: str) -> frozenset[str] | None:
        """Of an escape that stands for several characters; None for another."""
        if character in "pP":
            first, second = self._take(_PROPERTY, "the property").groups()
            found = self._find_property(first or second)
        elif character.lower() in _CLASSES:
            found = _CLASSES[character.lower()]
        else:
            return None
        return _ALL - found if character.isupper() else found

    def _find_property(self, name: str) -> frozenset[str]:
        if self._ignores_case and (name in _CASED or name.endswith(("case", "Case"))):
            raise ValueError(f"Java's versions read the property {name} differently where case is ignored")
        if name in _PROPERTIES:
            return _PROPERTIES[name]
        category = name.removeprefix("Is")
        found = frozenset(one for one in _ALL if unicodedata.category(one).startswith(category))
        if not category or len(category) > 2 or not found:
            raise ValueError(f"the property {name!r} is not known here")
        return found

    def _read_character(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "c":
            return chr(ord(self._next()) ^ 64)
        if character in "0xu":
            self.at -= 1
            found = self._take(_CHARACTER, "the number of a character")
            return chr(int(found.group(found.lastgroup or 0), 8 if found.lastgroup == "octal" else 16))
        if character.isalpha():
            raise ValueError(f"there is no \\{character} in Java")
        return character

    # --- classes ----------------------------------------------------------------------------------------------------

    def _read_class(self) -> frozenset[str]:
        """Behind a `[`, to its `]`."""
        is_negated = self._sees("^")
        self.at += is_negated
        found: frozenset[str] | None = None  # the intersection so far
        union: set[str] = set()
        start, is_simple, is_empty = self.at, True, True
        while True:
            if self._sees("]") and self.at > start and not (is_empty and found is None):
                self.at += 1
                break
            if self._sees("&&"):
                self.at += 2
                is_simple = False
                if is_empty:
                    raise ValueError("one side of && is empty")
                found = frozenset(union) if found is None else found & union
                union, is_empty = set(), True
                if self._sees("&"):
                    raise ValueError("Java's versions read && beside & differently")
                continue
            is_simple = is_simple and not self._sees("[")
            union |= self._read_item()
            is_empty = False
        if is_empty:
            raise ValueError("one side of && is empty")
        if is_negated and not is_simple:
            raise ValueError("Java's versions read a [^ with && or another [ in it differently")
        whole = frozenset(union) if found is None else found & union
        return _ALL - whole if is_negated else whole

    def _read_item(self) -> frozenset[str]:
        """A class within a class, a set, a range, or one character."""
        character = self._next()
        if character == "[":
            return self._read_class()
        if character == "\\":
            escaped = self._next()
            if escaped == "Q":
                quoted = self._read_quoted()
                if self._sees("-"):
                    raise ValueError("a range begins with a quotation")
                return self._fold(frozenset(quoted))
            found = self._read_set(escaped)
            if found is not None:
                return found
            character = self._read_character(escaped)
        is_range = self._sees("-") and not self._sees("-]") and not self._sees("-[")
        if not is_range:
            return self._fold(frozenset(character))
        self.at += 1
        last = self._next()
        if last == "\\":
            escaped = self._next()
            if escaped in "pPQ" or escaped.lower() in _CLASSES:
                raise ValueError("a range ends with a set of characters")
            last = self._read_character(escaped)
        if last < character:
            raise ValueError(f"the range {character}-{last} goes back")
        return self._fold(frozenset(map(chr, range(ord(character), ord(last) + 1))))

    def _fold(self, some: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case:
            return some
        change: Callable[[str], str] = str.swapcase
        return some | {change(one) for one in some if one in _LETTERS}


def _class_of(some: frozenset[str]) -> str:
    return "[" + "".join(re.escape(one) for one in sorted(some)) + "]" if some else "(?!)"
