"""Names in a text file beside the code: keys that are known and not used."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def read_rows(module_file: str, name: str) -> list[list[str]]:
    """The rows of the file `name` beside a module, each split at tabs. Lines that begin with # are comments."""
    text = Path(module_file).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


@cache
def read_names(module_file: str, name: str) -> tuple[str, ...]:
    """The names in the file `name` beside a module, one on each line."""
    return tuple(row[0] for row in read_rows(module_file, name))
