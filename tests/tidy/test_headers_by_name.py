"""In the hot files of log and records a header's fields are read by name: `header[9]` says nothing to a reader."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.tidy.checkout import named, sources

HOT: Final = ("broker/odradek/storage", "broker/odradek/wire/records")
# What is called so is a named tuple there.
NAMED_TUPLES: Final = ("header", "batch", "batch_header", "appended", "record", "request", "partition")


def fields_by_number(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Subscript)
                and _name(node.value) in NAMED_TUPLES
                and _is_number(node.slice)
            ):
                yield f"{named(path, node.lineno)} {ast.unparse(node)}; name the field"


def _name(value: ast.expr) -> str:
    if isinstance(value, ast.Name):
        return value.id
    return value.attr if isinstance(value, ast.Attribute) else ""


def _is_number(index: ast.expr) -> bool:
    if isinstance(index, ast.UnaryOp):
        index = index.operand
    return isinstance(index, ast.Constant) and isinstance(index.value, int)


def test_fields_of_headers_are_read_by_name() -> None:
    assert list(fields_by_number(sources(*HOT))) == []


def test_a_field_read_by_its_number_is_found(tmp_path: Path) -> None:
    hot = tmp_path / "hot.py"
    hot.write_text("a = header[9]\nb = self.header[-1]\nc = header.flags, lines[0], header[name]\n")
    assert list(fields_by_number([hot])) == [
        "hot.py:1 header[9]; name the field",
        "hot.py:2 self.header[-1]; name the field",
    ]
