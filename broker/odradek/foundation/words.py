"""Helpers for the texts of messages: numbers with their nouns, and the known name nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural by an `s` unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, for "did you mean …?"; None when none is near."""
    import difflib  # imported here, because most programs never see a wrong name

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
