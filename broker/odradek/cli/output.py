"""What a verb prints: a table for people, or JSON for programs; one place, so that every verb has both.

A verb hands over rows of plain values and never formats JSON itself. Tables are plain text: columns padded to their
widest cell, numbers to the right, no lines to cut away with `awk`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any
from uuid import UUID

TABLE = "table"
JSON = "json"
FORMATS = (TABLE, JSON)


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: dataclasses as objects, ids and enums by name, bytes as text (see `text`)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return text(bytes(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def text(value: bytes) -> str:
    """Bytes as UTF-8; what is not UTF-8 becomes `\\xNN`, so that nothing is lost silently."""
    return value.decode("utf-8", errors="backslashreplace")


def print_json(value: Any) -> None:
    """One JSON document, indented."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def print_json_line(value: Any) -> None:
    """One JSON document on one line."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")


def render_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The table's lines, headers first. A cell of None prints as `-`."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        bool(cells) and all(_is_number(row[column]) for row in cells) for column in range(len(headers))
    ]
    widths = [
        max([len(headers[column]), *(len(row[column]) for row in cells)]) for column in range(len(headers))
    ]
    lines = [_line(headers, widths, numeric)]
    lines.extend(_line(row, widths, numeric) for row in cells)
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    return str(value).replace("\n", " ")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.removeprefix("-").replace(".", "", 1).isdigit()


def show(output: str, *, headers: Sequence[str], rows: Iterable[Sequence[Any]], document: Any) -> None:
    """Print `document` as JSON or the rows as a table, as asked."""
    if output == JSON:
        print_json(document)
    else:
        print(render_table(headers, rows))


def say(output: str, sentence: str, document: Any) -> None:
    """Print one sentence for people, or `document` as JSON."""
    if output == JSON:
        print_json(document)
    else:
        print(sentence)


def warn(warning: str | None, *, about: str) -> None:
    """Print what a broker warns of on standard error; nothing without a warning."""
    if warning:
        print(f"odradek: warning: {about}: {warning}", file=sys.stderr)


def format_bytes(size_bytes: float) -> str:
    """A size for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
