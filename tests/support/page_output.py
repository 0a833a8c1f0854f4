"""What a page shows of a program's output, and whether the program printed that.

`…` or `...` stands for anything up to the end of the line it is on, alone on a line for any number of lines. Several
spaces count as one, so that a column may be as wide as its contents make it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from tests.support.pages import Block, PageError


def difference(expected: str, printed: str) -> str:
    """How `printed` differs from what a page shows; empty when it does not."""
    if re.fullmatch(_pattern(expected), _normal(printed)):
        return ""
    wanted, got = _normal(expected).splitlines(), _normal(printed).splitlines()
    return "\n".join(difflib.unified_diff(wanted, got, "the page", "printed", lineterm="")) + "\n"


def console_steps(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block (after `$ `, continued after `> `), each with the output shown below it."""
    command, expected = "", ""
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line.removeprefix("$ "), ""
        elif line.startswith("> ") and command and not expected:
            command += line.removeprefix("> ")
        elif command:
            expected += line
        else:
            raise PageError(f"{block.where}: a console block begins with a command after `$ `")
    if command:
        yield command, expected


def _normal(text: str) -> str:
    lines = [re.sub(r"[ \t]+", " ", line.rstrip()) for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _pattern(expected: str) -> str:
    pattern = ""
    for line in _normal(expected).splitlines(keepends=True):
        if line.strip() in ("…", "..."):
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in re.split(r"…|\.\.\.", line))
    return pattern
