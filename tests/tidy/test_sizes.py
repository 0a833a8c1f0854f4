"""Files and functions stay small enough to be read at once, and lines narrow enough for two windows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, TESTS, named, pages, prose_of_page, sources

FILE_LINES_MAX: Final = 450
# Where most of a file is one class, the only seam would be a second class.
ONE_CLASS_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 60
# A test may be longer: those of tests/compat/golden are lists of requests.
TEST_FILE_LINES_MAX: Final = 500
TEST_FUNCTION_LINES_MAX: Final = 140
COLUMNS_MAX: Final = 120


def long_files(paths: Iterable[Path], lines_max: int, one_class_lines_max: int) -> Iterator[str]:
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > lines_max and not (lines <= one_class_lines_max and is_mostly_one_class(text)):
            yield f"{named(path)} has {lines} lines; split it by what its parts are about"


def is_mostly_one_class(text: str) -> bool:
    """Whether one class has more than half of the lines."""
    classes = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    return any(2 * ((one.end_lineno or 0) - one.lineno + 1) > text.count("\n") for one in classes)


def long_functions(paths: Iterable[Path], lines_max: int) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = lines_of_body(node)
                if lines > lines_max:
                    yield f"{named(path, node.lineno)} {node.name} has {lines} lines; name a part of it"


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement to the last: parameters and docstring are read before, apart from these."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def wide_lines(path: Path) -> int:
    """Lines of a page's prose that are too wide; one without a blank between words cannot be wrapped."""
    return sum(
        len(line) > COLUMNS_MAX and " " in line[COLUMNS_MAX // 2 : COLUMNS_MAX]
        for _, line in prose_of_page(path)
    )


@pytest.mark.parametrize(
    ("folders", "lines_max", "one_class_lines_max"),
    [
        (PRODUCT, FILE_LINES_MAX, ONE_CLASS_LINES_MAX),
        (TESTS, TEST_FILE_LINES_MAX, TEST_FILE_LINES_MAX),
    ],
    ids=["product", "tests"],
)
def test_files_are_short(folders: tuple[str, ...], lines_max: int, one_class_lines_max: int) -> None:
    assert list(long_files(sources(*folders), lines_max, one_class_lines_max)) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("folders", "lines_max"),
    [(PRODUCT, FUNCTION_LINES_MAX), (TESTS, TEST_FUNCTION_LINES_MAX)],
    ids=["product", "tests"],
)
def test_functions_are_short(folders: tuple[str, ...], lines_max: int) -> None:
    assert list(long_functions(sources(*folders), lines_max)) == []


def test_code_is_wrapped() -> None:
    """Also what ruff leaves alone: a line that ends in a pragma or an address."""
    wide = [
        named(path, number)
        for path in sources(*PRODUCT, *TESTS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line.partition("  # type: ignore")[0]) > COLUMNS_MAX
    ]
    assert wide == []


def test_pages_are_wrapped() -> None:
    assert {named(page): count for page in pages() if (count := wide_lines(page))} == {}


def test_what_is_too_large_is_found(tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    large.write_text("def story(\n    one,\n):\n    '''Long.\n\n    Indeed.'''\n" + "    print()\n" * 5)
    assert list(long_files([large], 11, 11)) == []
    assert list(long_functions([large], 5)) == []
    assert list(long_files([large], 10, 11)) == [
        "large.py has 11 lines; split it by what its parts are about"
    ]
    assert list(long_functions([large], 4)) == ["large.py:1 story has 5 lines; name a part of it"]


def test_a_file_that_is_mostly_one_class_may_be_longer(tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    large.write_text("class One:\n" + "    a = 1\n" * 5 + "b = 1\n" * 5)
    assert list(long_files([large], 10, 11)) == []
    assert list(long_files([large], 9, 10)) == ["large.py has 11 lines; split it by what its parts are about"]
    large.write_text("class One:\n" + "    a = 1\n" * 4 + "b = 1\n" * 6)
    assert list(long_files([large], 10, 11)) == [
        "large.py has 11 lines; split it by what its parts are about"
    ]


def test_what_is_too_wide_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wide, table, address = "word " * 25, "| cell" + " " * 150 + "|", "https://" + "x" * 150
    page.write_text(
        f"{wide}\n{table}\n```\n{wide}\n```\n````\n```\n{wide}\n````\n<!-- {wide}\n{wide}\n-->\n{address}\n"
    )
    assert wide_lines(page) == 1
