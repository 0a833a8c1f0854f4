"""The output of a verb: a table for people, or JSON for programs; one place, so that every verb has both.

A verb passes rows of plain values and never formats JSON itself. Tables are plain text without lines between cells:
columns padded to their widest cell, numbers to the right.

Colour marks problems (`bad`, `warning`). It is on where stdout is a terminal, unless NO_COLOR is set
(https://no-color.org) or `--color` says otherwise. The words always say the same as the colour.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any
from uuid import UUID

import click

from odradek.foundation.words import count as count

# An object that is printed as JSON, or made a row of a table.
Document = dict[str, Any]

TABLE = "table"
JSON = "json"
FORMATS = (TABLE, JSON)
JSON_LINES = "json lines"
"""As JSON, with each document on one line: the output of a verb with --watch."""

AUTO = "auto"
COLORS = (AUTO, "always", "never")


@dataclasses.dataclass(frozen=True, slots=True)
class Styled:
    """A value with the colour that it has on a terminal, by click's names."""

    value: object
    color: str


def bad(value: object) -> Styled:
    """A failure: red."""
    return Styled(value, "red")


def warning(value: object) -> Styled:
    """A problem that stops nothing: yellow."""
    return Styled(value, "yellow")


def good(value: object) -> Styled:
    """A good state that is worth a mark: green."""
    return Styled(value, "green")


def state_in_color(state: str) -> Styled | str:
    """A group's state; one in which its members get no records is marked."""
    return warning(state) if state in ("PreparingRebalance", "CompletingRebalance", "Dead") else state


def use_color(context: click.Context, choice: str) -> None:
    """Decide for this command whether its output has colour; `choice` is one of COLORS."""
    if choice == AUTO:
        refused = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        context.color = sys.stdout.isatty() and not refused
    else:
        context.color = choice == "always"


def has_color() -> bool:
    """Whether the command that runs prints in colour."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.color)


def in_color(value: object) -> str:
    """A value as text for a sentence, coloured when it is `Styled` and colour is on."""
    if not isinstance(value, Styled):
        return str(value)
    return click.style(str(value.value), fg=value.color) if has_color() else str(value.value)


def plain(value: object) -> Any:
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


def text(value: bytes) -> str:
    """Bytes as UTF-8. Other bytes become `\\xNN`, so that none is lost silently."""
    return value.decode("utf-8", errors="backslashreplace")


def print_json(value: object) -> None:
    """One JSON document, indented."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def print_json_line(value: object) -> None:
    """One JSON document on one line."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")


def render_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The table's lines, headers first. A cell of None prints as `-`, a `Styled` one in its colour."""
    given = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in given]
    numeric = [
        bool(cells) and all(_is_number(row[column]) for row in cells) for column in range(len(headers))
    ]
    widths = [
        max([len(headers[column]), *(len(row[column]) for row in cells)]) for column in range(len(headers))
    ]
    lines = [_line(headers, widths, numeric)]
    is_colored = has_color()
    for row, values in zip(cells, given, strict=True):
        colors = [value.color if is_colored and isinstance(value, Styled) else None for value in values]
        lines.append(_line(row, widths, numeric, colors))
    return "\n".join(lines)


def _line(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], colors: Sequence[str | None] = ()
) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    padded[-1:] = [last.rstrip() for last in padded[-1:]]
    for column, color in enumerate(colors):
        if color is not None:
            padded[column] = click.style(padded[column], fg=color)
    return "  ".join(padded).rstrip()


def _cell(value: object) -> str:
    if isinstance(value, Styled):
        value = value.value
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    return str(value).replace("\n", " ")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.removeprefix("-").replace(".", "", 1).isdigit()


def show_document(output: str, document: object) -> bool:
    """Print `document` if JSON is asked for. Returns whether it is."""
    if output == JSON:
        print_json(document)
    elif output == JSON_LINES:
        print_json_line(document)
    return output in (JSON, JSON_LINES)


def show(
    output: str,
    *,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    document: object,
    empty: str,
) -> None:
    """Print `document` as JSON or the rows as a table, as asked. `empty` stands for a table without rows."""
    if not show_document(output, document):
        print_table(headers, rows, empty=empty)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or `empty` where it would have no row: headers alone look like a part of an answer."""
    given = list(rows)
    print(render_table(headers, given) if given else empty)


def show_documents(
    output: str, columns: Sequence[str], documents: Sequence[Mapping[str, object]], *, empty: str
) -> None:
    """Print documents whose fields are also the columns of a table, as `IN USE` for `in_use`."""
    headers = [column.upper().replace("_", " ") for column in columns]
    rows = [[document[column] for column in columns] for document in documents]
    show(output, headers=headers, rows=rows, document=documents, empty=empty)


def say(output: str, sentence: str, document: object) -> None:
    """Print one sentence for people, or `document` as JSON."""
    if not show_document(output, document):
        print(sentence)


def say_dry_run(what: str, *, is_empty: bool) -> None:
    """Say that nothing was done to the cluster. How to do it is said where there is something to do."""
    remedy = "" if is_empty else "; add --execute to do it"
    click.echo(f"dry run: nothing was {what}{remedy}", err=True)


def warn(warning: str | None, *, about: str = "") -> None:
    """Print a warning on stderr after the name of its subject; nothing without a warning."""
    if warning:
        print_error(f"warning: {about}: {warning}" if about else f"warning: {warning}")


def print_error(failure: Exception | str) -> None:
    """Print a failure, or a notice for the user, as one line on stderr."""
    print(f"odradek: {' '.join(str(failure).split())}", file=sys.stderr)


def print_errors(failures: Iterable[Exception]) -> None:
    """Print failures, each line once: one answer may have failed many partitions."""
    for text, times in Counter(str(failure) for failure in failures).items():
        print_error(text if times == 1 else f"{text} ({times} times)")


def failure_fields(failure: Exception) -> dict[str, str]:
    """The fields of a failure in every JSON document: the kind of error, and its message."""
    return {"error": type(failure).__name__, "message": str(failure)}


def format_bytes(size_bytes: float) -> str:
    """A size for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
