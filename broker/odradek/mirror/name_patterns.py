"""Patterns of names, as MirrorMaker 2 has them in `topics` and `groups`."""

from __future__ import annotations

import re


class NamePatterns:
    """Names and regular expressions with commas between them, as MirrorMaker's `topics`; a name must match whole."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part.strip() for part in text.split(",") if part.strip()]
        try:
            self._found = re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None
        except re.error as failure:
            raise ValueError(f"regular expressions with commas between them ({failure})") from failure

    def matches(self, name: str) -> bool:
        """Whether one of the patterns is for this name."""
        return self._found is not None and self._found.fullmatch(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePatterns) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"NamePatterns({self.text!r})"
