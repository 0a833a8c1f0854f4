"""Helpers for the texts of messages: numbers with their nouns, and the known name nearest to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_BETWEEN_WORDS: Final = re.compile(r"[-._]")


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural by an `s` unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def is_likely_typo(name: str, known: str) -> bool:
    """Whether `name` is probably `known` mistyped: a letter or two of one word differ, or only what is between the
    words.

    Numbered names (`orders-1`, `orders-2`) are none of each other, nor are names with another short word (`orders-eu`,
    `orders-us`) or a further one (`orders-retry`).
    """
    words, known_words = _BETWEEN_WORDS.split(name), _BETWEEN_WORDS.split(known)
    if "".join(words) == "".join(known_words):
        return name != known
    if len(words) != len(known_words):
        return False
    different = [(one, other) for one, other in zip(words, known_words, strict=True) if one != other]
    one, other = different[0]
    shorter = min(len(one), len(other))
    if len(different) > 1 or shorter < 4 or _without_digits(one) == _without_digits(other):
        return False
    return _edits(one, other) <= (1 if shorter < 6 else 2)


def _without_digits(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


def _edits(left: str, right: str) -> int:
    """The letters to insert, delete, replace, or swap with their neighbour (Damerau and Levenshtein's distance)."""
    two_before: list[int] = []
    before = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            edits = min(before[column] + 1, current[-1] + 1, before[column - 1] + (letter != other))
            is_swapped = row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other
            current.append(min(edits, two_before[column - 2] + 1) if is_swapped else edits)
        two_before, before = before, current
    return before[-1]


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, for "did you mean …?"; None when none is near."""
    import difflib  # imported here, because most programs never see a wrong name

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def kind_of(given: object) -> str:
    """The type of a value for messages: `a str`, `an int`, `None`."""
    return "None" if given is None else with_article(type(given).__name__)


def with_article(name: str) -> str:
    """`an int`, `a str`."""
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
