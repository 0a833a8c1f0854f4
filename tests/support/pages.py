"""The code blocks of a documentation page, and what their comments say about running them.

A block is fenced and names its language. `sh`, `console` and `python` blocks run as they stand. Other languages, and
blocks that need special treatment, have an HTML comment before them, which readers do not see:

    <!-- test: background until="ready" -->

docs/testing.md lists the kinds. A block that nothing classifies is an error, and so is a comment that names no known
kind. So no block of a page is untested by accident. Running them is `page_run`'s part. Blocks of the kind `kubernetes`
are run by `make e2e`, which has one: `sh` as commands, `yaml` by `kubectl apply`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SHELL_LANGUAGES: Final = ("sh", "bash", "console")
RUN_BY_DEFAULT: Final = (*SHELL_LANGUAGES, "python")
DRAWN: Final = ("mermaid",)

# The options that each kind takes; `timeout` is in seconds. A kind in _WITH_WORDS takes words as well.
_RUN_OPTIONS: Final = ("timeout", "needs")
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (*_RUN_OPTIONS, "fails"),
    "background": (*_RUN_OPTIONS, "until"),
    "interrupt": (*_RUN_OPTIONS, "until"),
    "pytest": (*_RUN_OPTIONS, "fails"),
    "session": _RUN_OPTIONS,
    "output": (),
    "file": (),
    "kubernetes": ("timeout", "fails", "part"),
    "skip": (),
}
_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": RUN_BY_DEFAULT,
    "background": ("sh", "bash"),
    "interrupt": ("sh", "bash"),
    "pytest": ("python",),
    "session": ("python",),
    "kubernetes": ("sh", "bash", "yaml"),
}
_WITH_WORDS: Final = ("file", "skip")
_LEFT_OUT: Final = ("skip", "kubernetes")

_FENCE: Final = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\S*)\s*$")
_LIST_ITEM: Final = re.compile(r"^\s*([-*+]|\d+[.)])\s")


class PageError(Exception):
    """A page that cannot be tested as it stands. The message begins with the page and the line."""


@dataclass(frozen=True)
class Directive:
    """What a comment says: a kind, its words and its options."""

    kind: str
    words: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """One code block. `line` is the line of its first line of code, counted from 1."""

    page: str
    line: int
    language: str
    text: str
    directive: Directive

    @property
    def kind(self) -> str:
        """How it is run; one of KINDS."""
        return self.directive.kind

    @property
    def where(self) -> str:
        """`docs/page.md:12`."""
        return f"{self.page}:{self.line}"

    @property
    def is_left_out(self) -> bool:
        """Whether it is not run where there is no Kubernetes."""
        return self.kind in _LEFT_OUT

    @property
    def part(self) -> str:
        """The part of a page that is another way to the same end, and is played by itself; mostly none."""
        return self.directive.options.get("part", "")


def blocks_of(path: Path, *, page: str) -> list[Block]:
    """The blocks of a page in order, hidden ones included. Raises PageError for one that nothing classifies."""
    return list(_blocks(path.read_text().splitlines(), page))


def _blocks(lines: list[str], page: str) -> Iterator[Block]:
    default: Directive | None = None
    pending: tuple[int, Directive] | None = None
    is_in_list = False
    at = 0
    while at < len(lines):
        line = lines[at]
        where = f"{page}:{at + 1}"
        fence = _FENCE.match(line)
        if line.lstrip().startswith("<!--"):
            comment, end = _until(lines, at, "-->", where)
            first, _, body = comment.strip().removeprefix("<!--").removesuffix("-->").strip().partition("\n")
            if first.startswith("test:"):
                if pending is not None:
                    raise PageError(f"{page}:{pending[0]}: this comment stands before no block")
                words = first.removeprefix("test:").strip()
                if body:
                    yield _hidden(page, at + 2, words, body)
                elif words.startswith("page "):
                    default = _directive(words.removeprefix("page "), where)
                else:
                    pending = at + 1, _directive(words, where)
            at = end + 1
            continue
        if fence is not None:
            indent, marks, language = fence.groups()
            body, end = _fenced(lines, at, indent, marks, where)
            directive = pending[1] if pending else default
            pending = None
            if language not in DRAWN:
                yield _block(page, at + 2, language, body, directive)
            at = end + 1
            continue
        if line.strip():
            if pending is not None:
                raise PageError(f"{page}:{pending[0]}: this comment stands before no block")
            if _LIST_ITEM.match(line):
                is_in_list = True
            elif not line.startswith(" "):
                is_in_list = False
            elif line.startswith("    ") and not is_in_list and (at == 0 or not lines[at - 1].strip()):
                raise PageError(f"{where}: a code block by indentation has no language; put it into a fence")
        at += 1
    if pending is not None:
        raise PageError(f"{page}:{pending[0]}: this comment stands before no block")


def _until(lines: list[str], at: int, end: str, where: str) -> tuple[str, int]:
    for last in range(at, len(lines)):
        if end in lines[last]:
            return "\n".join(lines[at : last + 1]), last
    raise PageError(f"{where}: the comment has no end")


def _fenced(lines: list[str], at: int, indent: str, marks: str, where: str) -> tuple[str, int]:
    for last in range(at + 1, len(lines)):
        if lines[last].strip() == marks:
            body = (line.removeprefix(indent) for line in lines[at + 1 : last])
            return "".join(f"{line}\n" for line in body), last
    raise PageError(f"{where}: the fence has no end")


def _hidden(page: str, line: int, words: str, body: str) -> Block:
    language, _, rest = words.partition(" ")
    return _block(page, line, language, f"{body.rstrip()}\n", _directive(rest or "run", f"{page}:{line - 1}"))


def _block(page: str, line: int, language: str, text: str, directive: Directive | None) -> Block:
    where = f"{page}:{line}"
    if directive is None:
        if language not in RUN_BY_DEFAULT:
            raise PageError(
                f"{where}: nothing says what to do with this block ({language or 'no language'}); put a comment "
                "<!-- test: … --> before it, as docs/testing.md explains"
            )
        directive = Directive("run")
    languages = _LANGUAGES.get(directive.kind)
    if languages is not None and language not in languages:
        raise PageError(
            f"{where}: a block of kind {directive.kind!r} is {' or '.join(languages)}, "
            f"not {language or 'without a language'}"
        )
    return Block(page, line, language, text, directive)


def _directive(text: str, where: str) -> Directive:
    kind, _, rest = text.strip().partition(" ")
    if kind not in KINDS:
        raise PageError(f"{where}: there is no kind {kind!r}; kinds are {', '.join(KINDS)}")
    if kind in _WITH_WORDS:
        if not rest.strip():
            raise PageError(f"{where}: {kind!r} needs {'a file name' if kind == 'file' else 'a reason'}")
        return Directive(kind, rest.strip())
    options: dict[str, str] = {}
    for word in shlex.split(rest):
        key, equals, value = word.partition("=")
        if not equals or key not in KINDS[kind]:
            allowed = ", ".join(f"{key}=…" for key in KINDS[kind]) or "nothing"
            raise PageError(f"{where}: {kind!r} does not take {word!r}; it takes {allowed}")
        options[key] = value
    if "until" in KINDS[kind] and not options.get("until"):
        raise PageError(f'{where}: {kind!r} needs until="…", a text of its output to wait for')
    return Directive(kind, options=options)
