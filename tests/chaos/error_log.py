"""What processes under test log as errors: tracebacks, and lines of that level which no fault explains."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ERRORS_MAX: Final = 5  # of one look: more say nothing new
TEXT_MAX: Final = 3000

_TRACEBACK: Final = b"Traceback (most recent call last)"
_ERROR_LINE: Final = re.compile(rb"^\S+Z (?:ERROR|CRITICAL) .*$", re.MULTILINE)
# Errors that a process has to log when its disk is full, or when it gets no answer.
_EXPECTED: Final = re.compile(
    rb"No space left on device|File too large|"  # the disk is full, or as large as it may grow
    rb"is not marked as closed cleanly: \d+ of its \d+ logs were not|"  # follows the first of them, with its error
    rb"every log directory of this broker failed|"  # follows the line that says why; the process ends, which is judged
    rb"of controller \d+ cannot continue"  # its registry is silent, or it has a successor
)


@dataclass(frozen=True, slots=True)
class Found:
    """`read_up_to` is where the next look begins: what may be half written is left to it."""

    errors: list[str]
    read_up_to: int


def new_errors(path: Path, position: int) -> Found:
    """Errors in the file from `position` on."""
    if not path.exists():
        return Found([], position)
    with path.open("rb") as log:
        log.seek(position)
        text = log.read()
    whole = text[: text.rfind(b"\n") + 1]
    begun = whole.rfind(_TRACEBACK)
    if begun >= 0 and not _is_over(whole[begun:]):
        whole = whole[: whole.rfind(b"\n", 0, begun) + 1]
    found = [line for line in _ERROR_LINE.findall(whole) if not _EXPECTED.search(line)]
    found += [
        whole[match.start() : match.start() + TEXT_MAX] for match in re.finditer(re.escape(_TRACEBACK), whole)
    ]
    return Found(
        [error.decode(errors="replace")[:TEXT_MAX] for error in found[:ERRORS_MAX]], position + len(whole)
    )


def _is_over(text: bytes) -> bool:
    """Whether a traceback is whole: a line that is not indented follows its first."""
    return any(line and not line.startswith(b" ") for line in text.split(b"\n")[1:-1])
