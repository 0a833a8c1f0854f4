"""Commands that prose and sources name, and whether the command line has them with the options named.

From Markdown: code spans that begin with a program's name, and lines of shell blocks. From Python: strings, f-strings
among them, with the same spans, and lines of help that begin with a program's name. Left out: what arguments mean.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})\s*(\w*)")
_SHELLS: Final = ("sh", "bash", "shell", "console", "")
_ENDS: Final = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1", ")", "\\"))
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


class Named(NamedTuple):
    """A command where it is named: `source` is FILE:LINE, `words` begin with the program."""

    source: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source}: {' '.join(self.words)}"


def in_markdown(path: Path, programs: Mapping[str, click.Command]) -> Iterator[Named]:
    """What a page names."""
    lines = path.read_text().splitlines()
    prose: list[str] = []
    fence = language = ""
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        match = _FENCE.match(line)
        if match and not fence:
            fence, language, block = match[1], match[2], []
        elif match and line.strip() == fence:
            if language in _SHELLS:
                yield from _in_shell(block, f"{path}:{number}", programs)
            fence = ""
        elif fence:
            block.append(line)
        prose.append("" if fence or match else line)
    yield from _in_spans("\n".join(prose), path, programs, first_line=1)


def in_python(path: Path, programs: Mapping[str, click.Command]) -> Iterator[Named]:
    """What the strings of a module name: errors, help, docstrings."""
    tree = ast.parse(path.read_text())
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "VALUE" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        yield from _in_spans(text, path, programs, first_line=node.lineno)
        if "Examples:" in text:
            yield from _in_shell(text.splitlines(), f"{path}:{node.lineno}", programs)


def _in_spans(
    text: str, path: Path, programs: Mapping[str, click.Command], *, first_line: int
) -> Iterator[Named]:
    for match in _SPAN.finditer(text):
        line = first_line + text.count("\n", 0, match.start())
        words = match[1].split()
        if words and words[0] in programs:
            yield from _in_shell([" ".join(words)], f"{path}:{line}", programs)


def _in_shell(lines: list[str], source: str, programs: Mapping[str, click.Command]) -> Iterator[Named]:
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        words = _split(line.strip().removeprefix("$ "))
        for position, word in enumerate(words):
            name = word.rpartition("/")[2]
            if name in programs and _begins_a_command(words[:position]):
                yield Named(source, (name, *_until_end(words[position + 1 :])))


def _begins_a_command(before: list[str]) -> bool:
    """Whether the text before a word allows it to be a program, and not an argument."""
    rest = [word for word in before if not _ASSIGNMENT.match(word)]
    return not rest or rest[-1] in _ENDS | {"time", "exec", "sudo", "do", "then", "(", "$("}


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quotation mark of prose
        return line.split()


def _until_end(words: list[str]) -> list[str]:
    kept: list[str] = []
    for word in words:
        if word in _ENDS or set(word) <= set("|&;<>()"):
            break
        kept.append(word)
    return kept


def problem(named: Named, program: click.Command) -> str | None:
    """What the command line does not have of this command, or None."""
    command = program
    context = click.Context(program, info_name=named.words[0])
    options = _options(program)
    wants_value = False
    for word in named.words[1:]:
        if wants_value:
            wants_value = False
            continue
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            flag, equals, _ = word.partition("=")
            option = options.get(flag) or options.get(flag[:2] if not flag.startswith("--") else flag)
            if option is None:
                return f"{named}: there is no option {flag}"
            wants_value = not equals and not option.is_flag and not option.count and flag in options
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            inner = command.get_command(context, word)
            if inner is None:
                return f"{named}: there is no command {word}"
            command, context = inner, click.Context(inner, info_name=word, parent=context)
            options |= _options(inner)
    return None


def _options(command: click.Command) -> dict[str, click.Option]:
    names: dict[str, click.Option] = {}
    for parameter in command.get_params(click.Context(command)):
        if isinstance(parameter, click.Option):
            names |= dict.fromkeys((*parameter.opts, *parameter.secondary_opts), parameter)
    return names
