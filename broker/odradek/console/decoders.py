"""Bytes of records as text to look at: JSON, text or hex, shortened to a bound.

No text is changed but for its line breaks. JSON is laid out by its tokens: a number keeps its digits, and a key that
stands twice stays so. Text that is no UTF-8 is shown as hex, and so is text with control characters.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Final, NamedTuple

AUTO: Final = "auto"
TEXT: Final = "text"
JSON: Final = "json"
HEX: Final = "hex"
FORMS: Final = (AUTO, TEXT, JSON, HEX)

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Strings of JSON are one token with their quotes; blanks are none.
TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_BEGINS: Final = (b"{", b"[")
_HEX_COLUMNS: Final = 16
# A line of hex for 16 bytes has 76 characters: with this share the text is as long as others.
_HEX_BYTES_SHARE: Final = 4
_INDENT: Final = "  "
# A deeper document is no wider on a screen.
_DEPTH_MAX: Final = 40


class ShownBytes(NamedTuple):
    """Bytes as text. `form` is how they were read, `size_bytes` is the size of all of them."""

    form: str
    text: str
    size_bytes: int
    is_shortened: bool


def show_bytes(data: bytes, form: str = AUTO, *, bytes_max: int) -> ShownBytes:
    """The text of these bytes in a form; where they are not of that form, in the next that fits."""
    part = data[:bytes_max]
    is_shortened = len(part) < len(data)
    text = None if form == HEX else _text_of(part, is_shortened=is_shortened, is_forced=form == TEXT)
    if text is not None and form in (AUTO, JSON) and not is_shortened and _looks_like_json(part, form):
        laid_out = lay_out(text)
        if laid_out is not None:
            return ShownBytes(JSON, laid_out, len(data), False)
    if text is not None:
        return ShownBytes(TEXT, text, len(data), is_shortened)
    shown = data[: max(bytes_max // _HEX_BYTES_SHARE, _HEX_COLUMNS)]
    return ShownBytes(HEX, dump(shown), len(data), len(shown) < len(data))


def _looks_like_json(data: bytes, form: str) -> bool:
    return form == JSON or data.lstrip()[:1] in _JSON_BEGINS


def _text_of(data: bytes, *, is_shortened: bool, is_forced: bool) -> str | None:
    """The text, or None for bytes that are none. `is_forced` replaces what is no text by a mark."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace" if is_forced else "strict")
    try:
        # A character that the bound splits is left out.
        text = decoder.decode(data, final=not is_shortened)
    except UnicodeDecodeError:
        return None
    return text if is_forced or not _CONTROL.search(text) else None


def lay_out(text: str) -> str | None:
    """A JSON document on lines of its own; None for a text that is none."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth, previous = 0, ""
    for token in TOKEN.findall(text):
        if token in "]}":
            depth -= 1
            if previous not in "[{":
                parts.append(_new_line(depth))
        elif previous and previous in "[{,":
            parts.append(_new_line(depth))
        parts.append(": " if token == ":" else token)
        depth += token in "[{"
        previous = token
    return "".join(parts)


def _new_line(depth: int) -> str:
    return "\n" + _INDENT * min(depth, _DEPTH_MAX)


def dump(data: bytes) -> str:
    """Lines of 16 bytes each: where they begin, their digits, and those that are ASCII."""
    lines = []
    for start in range(0, len(data), _HEX_COLUMNS):
        row = data[start : start + _HEX_COLUMNS]
        letters = "".join(chr(one) if 32 <= one < 127 else "." for one in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(lines)
