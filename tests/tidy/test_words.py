"""Plain words in the prose of the product and its tests: a word that has a better one in the table does not come back.

Prose is comments, docstrings, the pages, and texts that a program prints; names are left out. A word enters the table
when the last place with it is rewritten.
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

from tests.tidy.checkout import PRODUCT, TESTS, named, pages, reference, sources, text_of_page
from tests.tidy.test_sentences_of_code import texts

# As a regular expression between word boundaries, in any case: the better words. A person may be "a user who", and a
# machine may be "cut off".
BETTER: Final = {
    "afresh": "again",
    "amid": "in the middle of",
    "anew": "again",
    "anybody": "any client, any broker",
    "barred": "refused",
    "carried on": "continued",
    r"(?:close[sd]?|ends?|ended|stop|stops|stopped)(?: \w+)? in order": "end cleanly",
    "(?:comes?|came) to nothing": "fail",
    "comes? in": "arrive, or join the in-sync set",
    "coming in": "joining the in-sync set",
    r"cuts?(?! off)": "truncate, split",
    "doubted": "unconfirmed",
    "everybody": "every member, all brokers",
    "(?:falls?|fell) short": "fail",
    "heard of": "learned of",
    r"go(?:es|ing|ne)? on(?! the PATH)|went on": "continue, be in progress",
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
    "meanwhile": "until then, since, at the same time",
    "newcomers?": "new member",
    "nobody": "no client, no broker, none",
    "nobody is told": "no one is notified",
    "on and on": "until it is answered",
    "patiently": "with retries",
    r"(?<!people )(?<!person )(?<!user )(?<!administrator )who": "which, that",
    r"reign\w*": "the controller's term",
    "roads?": "path",
    "somebody": "another client",
    "stirs?": "wake up",
    "strangers": "other clients",
    "telling": "reporting",
    "tells?": "report, show, answer",
    "thence": "from there",
    "thereof": "of it",
    "told": "notified, reported, answered",
    r"vouch\w*": "mark complete",
    "whence": "from where",
    "wherein": "in which",
    "whoever": "the process that, by its name",
}
FOLDERS: Final = (*PRODUCT, *TESTS, "helm")
# Folders whose texts have no such words either.
FOLDERS_OF_TEXTS: Final = ("broker", "operator", "pipeline", "helm", "release")
_ANY: Final = re.compile(rf"\b(?:{'|'.join(BETTER)})\b", re.IGNORECASE)


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


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of what a module prints. One without a blank is a name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return ((number, " ".join(text.split())) for number, text in texts(tree) if len(text.split()) > 1)


def odd_words(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """What is to be rewritten. Code between backticks is left out."""
    for number, line in lines:
        for match in _ANY.finditer(re.sub(r"`[^`]*`", "", line)):
            yield f"{named(path, number)} {match[0]!r}: write {better(match[0])!r}"


def better(word: str) -> str:
    return next(instead for pattern, instead in BETTER.items() if re.fullmatch(pattern, word, re.IGNORECASE))


@pytest.mark.thorough
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_says_it_in_plain_words(folder: str) -> None:
    found = [word for path in sources(folder) for word in odd_words(path, comments_and_docstrings(path))]
    assert found == []


@pytest.mark.thorough
@pytest.mark.parametrize("folder", FOLDERS_OF_TEXTS)
def test_the_texts_say_it_in_plain_words(folder: str) -> None:
    found = [word for path in sources(folder) for word in odd_words(path, texts_of(path))]
    assert found == []


def test_the_pages_say_it_in_plain_words() -> None:
    found = [word for path in (*pages(), *reference()) for word in odd_words(path, text_of_page(path))]
    assert found == []


def test_an_odd_word_is_found(tmp_path: Path) -> None:
    code, page = tmp_path / "code.py", tmp_path / "page.md"
    code.write_text('"""Begins\nafresh."""\nafresh = 1  # Afresh, `afresh`\nprint("afresh", "go\\nafresh")\n')
    page.write_text("Begun.\n| afresh |\n```\nafresh\n```\nAn afreshment.\n")
    assert list(odd_words(code, comments_and_docstrings(code))) == [
        "code.py:3 'Afresh': write 'again'",
        "code.py:2 'afresh': write 'again'",
    ]
    assert list(odd_words(code, texts_of(code))) == ["code.py:4 'afresh': write 'again'"]
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
