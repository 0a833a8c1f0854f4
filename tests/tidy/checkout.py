"""The files that the tests of this folder look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("broker", "operator", "pipeline")
TESTS: Final = ("tests", "e2e", "bench", "demo", "release")
# Files of prose besides docs/: what a program writes is left out, since its source is checked.
_PAGES: Final = ("*.md", "broker/*.md", "operator/*.md", "pipeline/*.md", "helm/*/README.md", "docs/**/*.md")
_GENERATED: Final = ROOT / "docs" / "reference"


def sources(*folders: str) -> list[Path]:
    """The Python files below some folders of the checkout."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def pages() -> list[Path]:
    """The pages that people write."""
    found = {path for pattern in _PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not path.is_relative_to(_GENERATED))


def reference() -> list[Path]:
    """The pages that `make reference` writes from the declarations in the code."""
    return sorted(_GENERATED.glob("*.md"))


def named(path: Path, line: int | None = None) -> str:
    """A file, or one of its lines, as an error names it."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return name if line is None else f"{name}:{line}"


def prose_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) of a page without its blocks of code, its tables and its comments."""
    return ((number, line) for number, line in text_of_page(path) if not is_row(line))


def is_row(line: str) -> bool:
    """Whether a line of a page is a row of a table."""
    return line.lstrip().startswith("|")


def text_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) of a page without its blocks of code and its comments."""
    fence = ""
    in_comment = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r" *(`{3,}|~{3,})", line)
        if fence:
            # A block ends with as many marks as it began with, or more, and nothing else.
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        elif mark:
            fence = mark[1]
        elif in_comment or line.startswith("<!--"):
            in_comment = "-->" not in line
        else:
            yield number, line
