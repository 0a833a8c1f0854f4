"""Runbooks of docs/runbooks: the commands that a page gives, and the command line's own parser for them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click

from odradek.cli.main import command_line

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[tuple[str, ...]]:
    """The words of each command of a page, in order."""
    text = (FOLDER / f"{name}.md").read_text()
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    return [tuple(shlex.split(line.removesuffix(" &"), comments=True)) for line in lines if line.strip()]


def parse(words: tuple[str, ...] | list[str]) -> None:
    """Parse a command of `odradek` as far as it goes without a broker. Raises click.ClickException."""
    command: click.Command = command_line
    context: click.Context | None = None
    name, arguments = words[0], list(words[1:])
    while True:
        context = command.make_context(name, arguments, parent=context)
        if not isinstance(command, click.Group):
            return
        found, inner, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None and inner is not None
        name, command = found, inner
