"""`Any` turns the types off where it stands: none in handlers, and few elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.tidy.checkout import named, sources

# Lines with `Any` in the broker, imports included. Lower it when there are fewer.
BROKER_LINES_MAX: Final = 145
# The same in the operator: bodies of Kubernetes' objects, and generics whose parameter varies.
OPERATOR_LINES_MAX: Final = 52


def lines_with_any(paths: Iterable[Path]) -> Iterator[str]:
    """Each line of code with the name `Any`, imports included; prose does not count."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if "Any" in text:
            nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr | ast.alias))
            lines = {node.lineno for node in nodes if _is_any(node)}
            yield from (named(path, line) for line in sorted(lines))


def _is_any(node: ast.expr | ast.alias) -> bool:
    if isinstance(node, ast.Constant):
        # A type in quotes.
        return isinstance(node.value, str) and "[Any" in node.value
    return (
        (isinstance(node, ast.alias) and node.name == "Any")
        or (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
    )


def test_handlers_know_their_requests_and_responses() -> None:
    assert list(lines_with_any(sources("broker/odradek/broker/requests"))) == []


def test_the_broker_has_few_lines_without_types() -> None:
    found = list(lines_with_any(sources("broker")))
    assert len(found) <= BROKER_LINES_MAX, f"{len(found)} lines, such as {found[-5:]}"


def test_the_operator_has_few_lines_without_types() -> None:
    found = list(lines_with_any(sources("operator")))
    assert len(found) <= OPERATOR_LINES_MAX, f"{len(found)} lines, such as {found[-5:]}"


def test_each_spelling_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import Any\nimport typing\nx: list[Any]\ny: typing.Any\nz = cast('dict[Any, int]', x)\n# Any\n"
    )
    assert [line.rpartition(":")[2] for line in lines_with_any([path])] == ["1", "3", "4", "5"]
