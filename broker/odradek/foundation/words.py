"""Words that depend on a number, for messages of all layers: `1 member`, `2 members`."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural by an `s` unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
