"""The root of `odradek-pipeline`: one subcommand for each command, options from its declared settings, exit codes.

An error becomes one line on standard error. `errors.MEANINGS` has the exit codes.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.settings.declaration import Kind
from odradek.foundation.verb_groups import VerbGroup
from odradek_pipeline.cli.console import console_for
from odradek_pipeline.cli.table import COMMANDS, GROUPS
from odradek_pipeline.errors import PipelineError, PipelineExitCode, TerminatedError
from odradek_pipeline.settings.declared import CommandFlag, make_settings, settings_of
from odradek_pipeline.settings.files import read_file
from odradek_pipeline.work.command import Command

_NUMBERS: Final[Mapping[Kind, WholeNumber | AnyNumber]] = {
    Kind.INT: WholeNumber(),
    Kind.LONG: WholeNumber(),
    Kind.DOUBLE: AnyNumber(),
}
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def make_command_line() -> click.Group:
    root = VerbGroup(
        name="odradek-pipeline",
        help="Topics into tables and back with Spark, each record once.",
        context_settings=_CONTEXT,
    )
    for name, one in COMMANDS.items():
        above, _, last = name.rpartition(" ")
        find_group(root, above).add_command(make_command(one), last)
    return root


def find_group(root: click.Group, name: str) -> click.Group:
    """The group that a command such as `audit wait` belongs to; it is made when it is first asked for."""
    if not name:
        return root
    if name not in root.commands:
        root.add_command(VerbGroup(name, help=GROUPS[name], context_settings=_CONTEXT))
    found = root.commands[name]
    assert isinstance(found, click.Group)
    return found


def make_command(command: Command) -> click.Command:
    """A command with an option for each setting, and `--config` for a file of them."""
    options: list[click.Parameter] = [_make_option(one) for one in settings_of(command.settings).values()]
    options.append(
        click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A YAML file of settings; flags win.",
        )
    )
    options.append(click.Option(["--verbose", "-v"], is_flag=True, help="Show the trace of an error."))
    return click.Command(
        command.name.rpartition(" ")[2],
        params=options,
        callback=_make_callback(command),
        help=command.help,
        context_settings=_CONTEXT,
    )


def _make_option(one: CommandFlag) -> click.Option:
    shown = one.shown_default
    doc, kind = one.setting.doc, one.setting.kind
    if kind is Kind.BOOLEAN:
        return click.Option([f"{one.flag}/--no-{one.flag[2:]}"], default=None, help=doc)
    return click.Option(
        [one.flag],
        type=click.Choice(one.choices) if one.choices else _NUMBERS.get(kind, click.STRING),
        multiple=one.is_repeated,
        default=None,
        metavar=None if one.choices else one.metavar,
        help=f"{doc} [default: {shown}]" if shown else doc,
    )


def _make_callback(command: Command) -> Any:
    def call(config: Path | None, verbose: bool, **given: Any) -> int:
        known = {name: settings_of(one.settings).keys() for name, one in COMMANDS.items()}
        values = {} if config is None else read_file(config, command.name, known)
        for name, value in given.items():
            if value not in (None, ()):
                values[name] = (value, "--" + name.replace("_", "-"))
        settings = make_settings(command.settings, values)
        with console_for(settings.report.report) as console:
            made_summary = command.run(settings, console)
            console.show_summary(made_summary)
        return int(made_summary.exit_code)

    return call


def run(arguments: Sequence[str]) -> int:
    """Run one subcommand and return its exit code."""
    with _sigterm_as_exception():
        return _run(arguments)


@contextmanager
def _sigterm_as_exception() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: what it holds, as a transaction or a JVM, ends with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = make_command_line().main(
            args=list(arguments), prog_name="odradek-pipeline", standalone_mode=False
        )
        return int(code) if isinstance(code, int) else int(PipelineExitCode.OK)
    except click.exceptions.NoArgsIsHelpError as failure:
        failure.show()
        return int(PipelineExitCode.USAGE)
    except click.ClickException as failure:
        failure.show()
        return int(PipelineExitCode.USAGE)
    except (KeyboardInterrupt, click.Abort):
        return int(PipelineExitCode.INTERRUPTED)
    except TerminatedError:
        return int(PipelineExitCode.TERMINATED)
    except PipelineError as failure:
        if "-v" in arguments or "--verbose" in arguments:
            traceback.print_exception(failure)
        print(f"odradek-pipeline: {' '.join(str(failure).split())}", file=sys.stderr)
        return int(failure.exit_code)
    except Exception as failure:
        if "-v" in arguments or "--verbose" in arguments:
            traceback.print_exception(failure)
        first = str(failure).strip().partition("\n")[0]
        said = f"{type(failure).__name__}: {first} (add --verbose for the trace)"
        print(f"odradek-pipeline: {said}", file=sys.stderr)
        return int(PipelineExitCode.FAILED)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
