"""Sentences of docstrings, comments and texts are short enough to be read once.

A sentence ends with its full stop, or with its paragraph. Code between backticks is one word, and a number is none.
Lines that are indented below a paragraph are examples, layouts and tables, and are left out.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, TESTS, named, sources

WORDS_MAX: Final = 25
# Folders whose texts have short sentences too.
SHORT: Final = (*PRODUCT, "helm")
# With this a script begins that a container runs.
_SCRIPT: Final = "set -eu\n"
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) +")
# A full stop may stand before closing quotes and brackets.
_END: Final = re.compile(r"(?<=[.?!])[\"')\]]*\s+")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line number, text) of each string that stands alone: docstrings, also those of fields."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value.replace("\n" + " " * node.col_offset, "\n")


def comments(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of each block of comments."""
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start != (block[-1].start[0] + 1, block[-1].start[1]):
                yield _block(block)
                block = []
            block.append(token)
    if block:
        yield _block(block)


def _block(block: list[tokenize.TokenInfo]) -> tuple[int, str]:
    return block[0].start[0], "\n".join(re.sub("^#+:? ?", "", token.string) for token in block)


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """(line number, text) of each string that a program prints or uses. A value in it is one word."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    text = _text(node)
    if text is not None:
        if not text.startswith(_SCRIPT):
            yield getattr(node, "lineno", 0), text
        return
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "value" for value in node.values)
    return None


def paragraphs(number: int, text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of each paragraph and item of a list."""
    words, first = "", number
    is_item = False
    for line_number, line in enumerate(text.split("\n"), number):
        begins = _ITEM.match(line)
        is_apart = not line.strip() or (line[0] == " " and not is_item and line_number > number)
        if is_apart or begins:
            yield first, words
            words, is_item = "", bool(begins)
        if not is_apart:
            first = first if words else line_number
            words = f"{words} {line.strip()}"
    yield first, words


def long_sentences(path: Path, words_max: int = WORDS_MAX, *, with_texts: bool = True) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for number, text in [*docstrings(tree), *comments(source), *(texts(tree) if with_texts else ())]:
        for line_number, paragraph in paragraphs(number, text):
            for sentence in _END.split(re.sub(r"`[^`]*`", "code", paragraph)):
                words = sum(any(letter.isalpha() for letter in word) for word in sentence.split())
                if words > words_max:
                    yield f"{named(path, line_number)} {words} words: {sentence.strip()}"


def found_in(paths: Iterable[Path], *, with_texts: bool = True) -> list[str]:
    return [sentence for path in paths for sentence in long_sentences(path, with_texts=with_texts)]


@pytest.mark.thorough
@pytest.mark.parametrize("folder", SHORT)
def test_sentences_of_the_code_are_short(folder: str) -> None:
    assert found_in(sources(folder)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("folder", TESTS)
def test_sentences_about_tests_are_short(folder: str) -> None:
    # Their texts are data: scripts, requests, and what other programs print.
    assert found_in(sources(folder), with_texts=False) == []


def test_a_long_sentence_of_the_code_is_found(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text(
        '"""One two. Three four five.\n\n    a table of many words\n\n- An item\n  of four words.\n"""\n'
        "# Six `a b c d` words\n# of a comment. Two more.\nraise E(f'{x} is 3 times\\nas long as may be')\n"
    )
    assert list(long_sentences(code, 2)) == [
        "code.py:1 3 words: Three four five.",
        "code.py:5 5 words: - An item of four words.",
        "code.py:8 6 words: Six code words of a comment.",
        "code.py:10 8 words: value is 3 times as long as may be",
    ]
