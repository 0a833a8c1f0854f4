"""Every module begins with a docstring, whose first sentence is short: it is what a reader of the folder sees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, TESTS, named, sources

WORDS_MAX: Final = 25


def bad_heads(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        module = ast.parse(path.read_text(encoding="utf-8"))
        head = ast.get_docstring(module)
        if head is None:
            if module.body:
                yield f"{named(path)} has no docstring"
            continue
        words = len(first_sentence(head).split())
        if words > WORDS_MAX:
            yield f"{named(path)} begins with a sentence of {words} words"


def first_sentence(text: str) -> str:
    """Up to the first full stop, blank line or list that a colon announces."""
    return re.split(r"(?<=[.!?])\s|:\s*\n|\n\s*\n", text, maxsplit=1)[0]


@pytest.mark.thorough
def test_modules_begin_with_a_short_sentence() -> None:
    assert list(bad_heads(sources(*PRODUCT, *TESTS))) == []


def test_a_bad_head_is_found(tmp_path: Path) -> None:
    for name, content in (
        ("empty", ""),
        ("good", '"""Short. ' + "word " * 30 + '"""\n'),
        ("none", "VALUE = 1\n"),
        ("long", '"""' + "word " * 25 + 'end."""\n'),
    ):
        (tmp_path / f"{name}.py").write_text(content)
    assert list(bad_heads(sorted(tmp_path.glob("*.py")))) == [
        "long.py begins with a sentence of 26 words",
        "none.py has no docstring",
    ]
