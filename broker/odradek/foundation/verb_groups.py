"""The groups of command lines by click, of all three distributions: what a user sees of their verbs.

A verb is declared in one module, and runs in another, which is loaded when it is called. So its help needs no client.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Final

import click

from odradek.foundation.words import nearest_name

# More than any summary has, so that click shortens none.
_SUMMARY_CHARACTERS_MAX: Final = 1000

_TOPIC_OPTION: Final = "--topic"
# Click's own words.
_EXTRA_ARGUMENTS: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)")
# The options whose text is the name of something in the cluster.
_NAMING_OPTIONS: Final = frozenset((_TOPIC_OPTION, "--group", "--share-group"))


# Verbs that mean the same in different tools; the first that a group has is suggested.
_LIKE: Final = (
    ("unset", "delete", "remove", "forget", "rm", "del", "drop"),
    ("describe", "show", "get", "inspect", "info", "view"),
    ("list", "ls"),
    ("alter", "set", "change", "edit", "update", "modify"),
    ("create", "set", "add", "new", "make"),
)


class VerbGroup(click.Group):
    """As in click, except that a summary is whole. The error for an unknown verb names the one that is meant."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(_SUMMARY_CHARACTERS_MAX))
            for name, command in found
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as failure:
            verbs = self.list_commands(ctx)
            meant = _find_like(args[0], verbs) or nearest_name(args[0], verbs)
            if meant is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant!r}?", ctx) from failure


def _find_like(word: str, verbs: Sequence[str]) -> str | None:
    """The verb of this group for a word of another tool."""
    return next((verb for words in _LIKE if word in words for verb in words if verb in verbs), None)


def explain_extra_arguments(failure: click.UsageError) -> click.UsageError:
    """The same error. One about too many arguments names the option for topics, where the verb has it."""
    found = _EXTRA_ARGUMENTS.fullmatch(failure.message)
    if found is None or failure.ctx is None:
        return failure
    options = {option for one in failure.ctx.command.params for option in one.opts}
    if _TOPIC_OPTION not in options:
        return failure
    words = " ".join(f"{_TOPIC_OPTION} {name}" for name in found[1].split())
    return click.UsageError(f"{failure.message}. A topic is given by an option: {words}", failure.ctx)


def run_in(module_name: str) -> Callable[[Callable[[], None]], Callable[..., object]]:
    """A declaration has the options and the help of a verb, and no body. The function of the same name in
    `module_name` does the work.
    """

    def decorate(declaration: Callable[[], None]) -> Callable[..., object]:
        @functools.wraps(declaration)
        def call(*arguments: object, **options: object) -> object:
            _require_names(click.get_current_context())
            run = getattr(importlib.import_module(module_name), declaration.__name__)
            return run(*arguments, **options)

        return call

    return decorate


def _require_names(context: click.Context) -> None:
    """Raises click.UsageError for an empty text where a name stands, as a script gives it by an unset variable."""
    for one in context.command.params:
        given = context.params.get(one.name or "")
        is_name = isinstance(one, click.Argument) or not _NAMING_OPTIONS.isdisjoint(one.opts)
        if is_name and (given == "" or (isinstance(given, tuple) and "" in given)):
            raise click.BadParameter("it is empty; give a name.", context, one)
