"""Names of tests are short enough for one line of a report: what they claim, and no more."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import TESTS, named, sources

CHARACTERS_MAX: Final = 70


def long_names(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.name) > CHARACTERS_MAX:
                yield f"{named(path, node.lineno)} {node.name} has {len(node.name)} characters"


@pytest.mark.thorough
def test_names_of_tests_are_short() -> None:
    assert list(long_names(sources(*TESTS))) == []


def test_a_long_name_is_found(tmp_path: Path) -> None:
    module = tmp_path / "test_module.py"
    name = f"test_{'x' * 66}"
    module.write_text(
        f"async def {name}():\n    pass\n\n\ndef {name[:-1]}():\n    pass\n\n\ndef {name[1:]}():\n    pass\n"
    )
    assert list(long_names([module])) == [f"test_module.py:1 {name} has 71 characters"]
