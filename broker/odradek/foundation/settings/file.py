"""Java's properties syntax, which `server.properties` is written in.

A line is `key=value`, `key: value` or `key value`. `#` and `!` begin a comment. A backslash at the end of a line
continues it; elsewhere it escapes a character (`\t`, `\n`, `\u00e4`, `\\=`). The last value of a repeated key counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.foundation.errors import SettingError

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, *, source: str = "server.properties") -> dict[str, str]:
    """The entries of `text` in order.

    Raises SettingError, naming `source` and the line, for a `\\u` without four hexadecimal digits.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            key, value = _split(line)
        except ValueError as error:
            raise SettingError(f"{source}, line {number}: {error}") from None
        entries[key] = value
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without blanks before them, comments and empty lines."""
    joined = ""
    first = 0
    is_continued = False
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = natural.lstrip(_BLANK)
        if not is_continued:
            if not line or line[0] in "#!":
                continue
            first = number
        trailing = len(line) - len(line.rstrip("\\"))
        is_continued = trailing % 2 == 1
        joined += line[:-1] if is_continued else line
        if not is_continued:
            yield first, joined
            joined = ""
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"\\u{digits} is not four hexadecimal digits; write \\\\ for a backslash")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Characters beyond the first plane are written as two escapes, which only together are one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
