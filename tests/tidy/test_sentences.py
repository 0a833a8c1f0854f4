"""Sentences of the pages are short enough to be read once.

Words are counted as a reader counts them: code between backticks is one word, a link is its text. Blocks of code and
comments are left out. A sentence ends with its full stop, or with its paragraph, list item, heading or cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.tidy.checkout import is_row, named, pages, reference, text_of_page

WORDS_MAX: Final = 25
# A line that begins with one of these begins a paragraph: an item of a list, a quotation.
_BEGIN: Final = re.compile(r"\s*(?:[-*+]|\d+\.|>)\s+")
# A full stop may stand before closing quotes, brackets and marks of emphasis.
_END: Final = re.compile(r"(?<=[.?!])[\"')\]*_]*\s+")


def paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """(line number, text) of each heading, list item, paragraph and cell of a table."""
    first, text, previous = 0, "", 0
    for number, line in lines:
        begin = _BEGIN.match(line)
        stands_alone = line.startswith("#") or is_row(line)
        # A block of code, which `lines` leaves out, ends a paragraph as an empty line does.
        if text and (begin or not line.strip() or stands_alone or number > previous + 1):
            yield first, text
            text = ""
        if stands_alone:
            yield from ((number, part) for part in line.lstrip("# ").split(" | "))
        elif line.strip():
            first = first if text else number
            text = f"{text} {line[begin.end() if begin else 0 :].strip()}".strip()
        previous = number
    if text:
        yield first, text


def words_of(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def sentences(text: str) -> list[str]:
    text = re.sub(r"(`+)(.+?)\1", "code", text)
    # An API with its key is one word: Fetch (1).
    text = re.sub(r"(\w) \(\d+\)", r"\1", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return _END.split(text)


def long_sentences(path: Path, words_max: int = WORDS_MAX) -> Iterator[str]:
    for number, text in paragraphs(text_of_page(path)):
        for sentence in sentences(text):
            words = words_of(sentence)
            if words > words_max:
                yield f"{named(path, number)} {words} words: {sentence}"


def test_sentences_of_the_pages_are_short() -> None:
    assert [sentence for page in (*pages(), *reference()) for sentence in long_sentences(page)] == []


def test_a_long_sentence_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    long = " ".join(["word"] * 25)
    page.write_text(
        f"# {long} more\n{long}.\n{long} more! It\nends.\n\n- {long}\n- {long}\n  = more.\n\n"
        f"{long}\n| {long} | {long} more |\n{long}\n```\n{long} more\n```\n"
        f"`one {long}` is one word of [code]({long}). **{long}.** Next.\n"
    )
    assert list(long_sentences(page)) == [
        f"page.md:1 26 words: {long} more",
        f"page.md:2 26 words: {long} more!",
        f"page.md:7 26 words: {long} = more.",
        f"page.md:11 26 words: {long} more |",
    ]
