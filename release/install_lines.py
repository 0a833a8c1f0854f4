"""How pages install a distribution: from a package index once there is a release, until then from a clone.

`tool.odradek.is_published` in pyproject.toml declares it. A release sets it. Commands begin with `pip install` and end
with their line, the backtick of a sentence, or the quotation mark of a string.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

DECLARED_IN = "pyproject.toml"
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "*/README.md", "helm/*/README.md")
_DECLARATION = re.compile(r"^is_published = (true|false)$", re.MULTILINE)
_CLONE = "/path/to/odradek"
_COMMENT = "# a clone of this repository"
_COMMAND = re.compile(r"pip install [^`\"\n]+")
_NAME = re.compile(
    rf"(?<=[ '])(?:{_CLONE}(?:/(?P<folder>operator|pipeline))?|odradek(?:-(?P<part>operator|pipeline))?)(?=[\[ ']|$)"
)


def is_published(checkout: Path) -> bool:
    """Whether a package index has the three distributions."""
    declared: bool = tomllib.loads((checkout / DECLARED_IN).read_text())["tool"]["odradek"]["is_published"]
    return declared


def declare_published(checkout: Path) -> None:
    """Write to pyproject.toml that a package index has the distributions."""
    path = checkout / DECLARED_IN
    path.write_text(_DECLARATION.sub("is_published = true", path.read_text()))


def pages(checkout: Path) -> Iterator[Path]:
    for pattern in PAGES:
        yield from sorted(checkout.glob(pattern))


def with_installs(page: str, *, is_published: bool) -> str:
    """The text of a page with each command of the one form or the other."""

    def rewritten(command: re.Match[str]) -> str:
        text = command[0].removesuffix(_COMMENT).rstrip()
        names = _NAME.search(text)
        if names is None:
            return command[0]
        text = _NAME.sub(lambda name: _name(name, is_published=is_published), text)
        is_a_line = page[command.end() : command.end() + 1] not in ("`", '"')
        return text if is_published or not is_a_line else f"{text}    {_COMMENT}"

    return _COMMAND.sub(rewritten, page)


def _name(found: re.Match[str], *, is_published: bool) -> str:
    part = found["folder"] or found["part"]
    if is_published:
        return f"odradek-{part}" if part else "odradek"
    return f"{_CLONE}/{part}" if part else _CLONE
