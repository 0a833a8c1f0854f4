"""Plain words in the prose of the product: what has a better word, by the table below, does not come back.

Prose is comments, docstrings and the pages; names and texts that a program prints are left out. A word enters the
table when the last place with it is rewritten.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, named, pages, reference, sources, text_of_page

# As a regular expression between word boundaries, whatever the case: the better words.
BETTER: Final = {
    "(?:comes?|came) to nothing": "fail",
    "(?:falls?|fell) short": "fail",
    "afresh": "again",
    "amid": "in the middle of",
    "anew": "again",
    "barred": "refused",
    "carried on": "continued",
    "comes? in": "arrive, or join the in-sync set",
    "coming in": "joining the in-sync set",
    "doubted": "unconfirmed",
    "heard of": "learned of",
    "hears? of": "learn of",
    "hence": "so",
    "hungry": "waiting",
    "in the very moment": "at the same time",
    "keeps? house": "maintain",
    "kept here": "hosted here",
    "learnt": "learned",
    "lest": "so that no",
    "lets? go": "release",
    "letting go": "release",
    "nobody is told": "no one is notified",
    "on and on": "until it is answered",
    "patiently": "with retries",
    r"reign\w*": "the controller's term",
    "roads?": "path",
    "stirs?": "wake up",
    "strangers": "other clients",
    "thence": "from there",
    "thereof": "of it",
    r"vouch\w*": "mark complete",
    "whence": "from where",
    "wherein": "in which",
    "whoever": "the process that, by its name",
}
# The same for words that PARTS_TO_REWRITE still have. A person may be "a user who", a machine may be "cut off".
BETTER_IN_REWRITTEN_PARTS: Final = {
    r"(?:close[sd]?|ends?|ended|stop|stops|stopped)(?: \w+)? in order": "end cleanly",
    r"cuts?(?! off)": "truncate, split",
    "nobody": "no client, no broker, none",
    "somebody": "another client",
    "telling": "reporting",
    "tells?": "report, show, answer",
    "told": "notified, reported, answered",
    r"(?<!people )(?<!person )(?<!user )(?<!administrator )who": "which, that",
}
# One that has no such words any more has to leave this list.
PARTS_TO_REWRITE: Final = ["broker/odradek/log"]
FOLDERS: Final = (*PRODUCT, "helm", "release", "e2e")


def pattern_of(*tables: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(chain(*tables))})\b", re.IGNORECASE)


_ANYWHERE: Final = pattern_of(BETTER)
_IN_REWRITTEN_PARTS: Final = pattern_of(BETTER, BETTER_IN_REWRITTEN_PARTS)


def comments_and_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) of a module's prose."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                for offset, line in enumerate(docstring.splitlines()):
                    yield node.body[0].lineno + offset, line


def odd_words(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """What is to be rewritten. Code between backticks is left out."""
    odd = _IN_REWRITTEN_PARTS if part_to_rewrite(path) is None else _ANYWHERE
    for number, line in lines:
        for match in odd.finditer(re.sub(r"`[^`]*`", "", line)):
            yield f"{named(path, number)} {match[0]!r}: write {better(match[0])!r}"


def part_to_rewrite(path: Path) -> str | None:
    return next((part for part in PARTS_TO_REWRITE if named(path).startswith(f"{part}/")), None)


def better(word: str) -> str:
    tables = {**BETTER, **BETTER_IN_REWRITTEN_PARTS}
    return next(instead for pattern, instead in tables.items() if re.fullmatch(pattern, word, re.IGNORECASE))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_says_it_in_plain_words(folder: str) -> None:
    found = [word for path in sources(folder) for word in odd_words(path, comments_and_docstrings(path))]
    assert found == []


def test_the_pages_say_it_in_plain_words() -> None:
    found = [word for path in (*pages(), *reference()) for word in odd_words(path, text_of_page(path))]
    assert found == []


def test_a_part_without_odd_words_leaves_the_list() -> None:
    left = {
        part_to_rewrite(path)
        for path in sources(*PRODUCT)
        if any(_IN_REWRITTEN_PARTS.search(line) for _, line in comments_and_docstrings(path))
    }
    assert [part for part in PARTS_TO_REWRITE if part not in left] == [], "take them out of PARTS_TO_REWRITE"


def test_an_odd_word_is_found(tmp_path: Path) -> None:
    code, page = tmp_path / "code.py", tmp_path / "page.md"
    code.write_text('"""Begins\nafresh."""\nafresh = 1  # Afresh, `afresh`\nprint("afresh")\n')
    page.write_text("Begun.\n| afresh |\n```\nafresh\n```\nAn afreshment.\n")
    assert list(odd_words(code, comments_and_docstrings(code))) == [
        "code.py:3 'Afresh': write 'again'",
        "code.py:2 'afresh': write 'again'",
    ]
    assert list(odd_words(page, text_of_page(page))) == ["page.md:2 'afresh': write 'again'"]


def test_a_word_with_a_good_and_an_odd_use_is_found_in_the_odd_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "A user who is told\nwhich broker leads, who cuts.\nIt is cut off, and ends it in order.\n"
    )
    assert [word.partition(":")[2].partition(":")[0] for word in odd_words(page, text_of_page(page))] == [
        "1 'told'",
        "2 'who'",
        "2 'cuts'",
        "3 'ends it in order'",
    ]
