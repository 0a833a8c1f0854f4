"""Help: short, whole, and true about where things stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from odradek.cli.main import command_line
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek_operator.main.cli import main as operator_command_line
from odradek_pipeline.cli.main import make_command_line

Invoke = Callable[..., Result]
SHARED = ("--bootstrap", "--profile", "--command-config", "--output", "--timeout", "--verbose", "--color")
# What takes away records or committed offsets: nothing brings them back.
LOSING = {
    ("topics", "delete"),
    ("queues", "delete"),
    ("queues", "forget"),
    ("queues", "reset"),
    ("topics", "trim"),
    ("topics", "elect-leaders"),
    ("groups", "delete"),
    ("groups", "delete-offsets"),
    ("groups", "reset-offsets"),
    ("transactions", "abort"),
}


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words, groups too."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


OURS = dict(commands(command_line))


def options(command: click.Command) -> set[str]:
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }


def test_a_verb_names_the_options_of_all_verbs_in_one_line(invoke: Invoke) -> None:
    printed = invoke("topics", "list", "--help").output
    assert "odradek help options" in printed
    assert not any(option in printed for option in ("--profile", "--command-config", "--color"))
    assert len(invoke("consume", "--help").output.splitlines()) < 77


def test_the_options_of_all_verbs_have_a_page(invoke: Invoke) -> None:
    printed = invoke("help", "options").output
    assert all(option in printed for option in SHARED)
    assert all(option in invoke("--help").output for option in SHARED)


def test_help_shows_a_verbs_help(invoke: Invoke) -> None:
    assert invoke("help", "topics", "create").output == invoke("topics", "create", "--help").output
    assert invoke("help").output == invoke("--help").output
    wrong = invoke("help", "topics", "crate")
    assert wrong.exit_code == ExitCode.USAGE
    assert "Did you mean 'create'?" in wrong.output
    assert invoke("help", "produce", "more").exit_code == ExitCode.USAGE


each_command_line = pytest.mark.parametrize(
    ("name", "root"),
    [
        ("odradek", command_line),
        ("odradek-operator", operator_command_line),
        ("odradek-pipeline", make_command_line()),
    ],
)


@each_command_line
def test_no_summary_is_cut(name: str, root: click.Command) -> None:
    for words, command in commands(root):
        if isinstance(command, click.Group):
            shown = command.get_help(click.Context(command, info_name=" ".join((name, *words))))
            listed = shown[shown.index("Commands:") :]
            assert "..." not in listed, words


@each_command_line
def test_numbers_are_told_in_words(name: str, root: click.Command) -> None:
    """Click names them an INTEGER RANGE, and writes 1<=x<=30."""
    ours, clicks = (WholeNumber, AnyNumber), (type(click.INT), type(click.FLOAT))
    for words, command in commands(root):
        for parameter in command.params:
            kind = parameter.type
            assert isinstance(kind, ours) or not isinstance(kind, clicks), (name, *words, parameter.name)
        shown = command.get_help(click.Context(command))
        assert "RANGE" not in shown and "<=x" not in shown, words


def test_what_is_below_is_not_above() -> None:
    """Options stand below the text."""
    for words, command in OURS.items():
        for parameter in command.params:
            assert "see below" not in (getattr(parameter, "help", None) or ""), words


def test_what_takes_away_records_or_offsets_alone_needs_execute() -> None:
    assert {words for words, command in OURS.items() if "--execute" in options(command)} == LOSING
