"""`--watch`: repeats a verb that shows something until Ctrl-C, which ends it with 0.

On a terminal each result replaces the one before (by rich, which knows the terminal's size). Elsewhere the results
follow each other: tables under their time, JSON as one document on each line. If the first request fails, the verb
fails as without `--watch`. A later failure is shown, and the next request is tried. One client serves all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared import interrupts, late
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import JSON_LINES, bad, failure_fields, has_color, in_color, print_json_line
from odradek.foundation.errors import OdradekError
from odradek.foundation.option_types import AnyNumber

if TYPE_CHECKING:
    from odradek.client.client import Client

T = TypeVar("T")

SECONDS_DEFAULT = 2.0
SECONDS_MAX = 86_400.0
# Without --timeout. It is short, so that a failure of the broker is soon shown.
LOOK_SECONDS_MAX = 5.0
_OPTION = "--watch"
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+")


class WatchCommand(click.Command):
    """A command with `watch_option`: its number may be left out, also where an argument follows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_seconds(args))


def _with_seconds(arguments: Sequence[str]) -> list[str]:
    """The arguments with a number for each `--watch` that has none."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given: list[str] = []
    for index, word in enumerate(arguments):
        following = arguments[index + 1 : index + 2]
        is_bare = word == _OPTION and not (following and _NUMBER.fullmatch(following[0]))
        given.append(f"{_OPTION}={SECONDS_DEFAULT:g}" if index < end and is_bare else word)
    return given


# The verb gets `watch`: seconds, or None to run once. Needs `WatchCommand`.
watch_option = click.option(
    _OPTION,
    "watch",
    type=AnyNumber(min=0.1, max=SECONDS_MAX),
    metavar="[SECONDS]",
    help=f"Repeat every so many seconds ({SECONDS_DEFAULT:g} without a number) until Ctrl-C.",
)


def look(
    session: CommandSession,
    work: Callable[[Client], Awaitable[T]],
    present: Callable[[CommandSession, T], int | None],
    *,
    every_seconds: float | None,
) -> int:
    """Do `work` and `present` its result, once or every so many seconds. Returns the exit code. `present` prints to
    stdout; without --watch its exit code is the result. Raises the errors of the first `work`.
    """
    if every_seconds is None:
        return present(session, session.run(work)) or ExitCode.OK
    _ = session.settings  # wrong settings raise before a loop runs
    with contextlib.suppress(KeyboardInterrupt):
        interrupts.run(_watch(session, work, present, every_seconds))
    return ExitCode.OK


async def _watch(
    session: CommandSession,
    work: Callable[[Client], Awaitable[T]],
    present: Callable[[CommandSession, T], int | None],
    every_seconds: float,
) -> None:
    given_seconds = session.given_timeout_seconds
    wait_ms_max = round(LOOK_SECONDS_MAX * 1000) if given_seconds is None else None
    shown, view = session, _JsonLines()
    if session.is_json:
        shown = dataclasses.replace(session, output=JSON_LINES)
    else:
        view = _Screen(every_seconds) if sys.stdout.isatty() else _Tables()
    has_looked = False
    async with session.open_client(wait_ms_max=wait_ms_max) as client:
        with contextlib.ExitStack() as open_views:
            while True:
                try:
                    found = await work(client)
                except (OdradekError, OSError) as failure:
                    if not has_looked:
                        raise
                    view.show_failure(failure)
                else:
                    if not has_looked:
                        open_views.enter_context(view)
                    has_looked = True
                    view.show(_capture_output(present, shown, found))
                await asyncio.sleep(every_seconds)


def _capture_output(
    present: Callable[[CommandSession, T], int | None], session: CommandSession, found: T
) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        present(session, found)
    return printed.getvalue()


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


class _JsonLines:
    """The place where results are shown, between `__enter__` and `__exit__`. Here it is one document on each line."""

    def __enter__(self) -> object:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, printed: str) -> None:
        """Show the output of one run."""
        sys.stdout.write(printed)
        sys.stdout.flush()

    def show_failure(self, failure: Exception) -> None:
        """Show the error of one run."""
        print_json_line(failure_fields(failure))
        sys.stdout.flush()


class _Tables(_JsonLines):
    """One table after the other, each under its time."""

    def show(self, printed: str) -> None:
        sys.stdout.write(f"{_now()}\n{printed}\n")
        sys.stdout.flush()

    def show_failure(self, failure: Exception) -> None:
        self.show(in_color(bad(f"{failure}; trying again")) + "\n")


class _Screen(_JsonLines):
    """The terminal: each result replaces the one before, and the last one stays when the command ends."""

    def __init__(self, every_seconds: float) -> None:
        # Imported here: no other command has to wait for rich.
        console = late.Console(file=sys.stdout, no_color=not has_color(), highlight=False)
        self._live = late.Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._every_seconds = every_seconds
        self._printed = ""

    def __enter__(self) -> object:
        return self._live.__enter__()

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, printed: str) -> None:
        self._printed = printed
        self._draw(f"{_now()}  every {self._every_seconds:g} s, Ctrl-C ends it\n")

    def show_failure(self, failure: Exception) -> None:
        self._draw(in_color(bad(f"{_now()}  {failure}; trying again. The last result:\n")))

    def _draw(self, heading: str) -> None:
        body = late.Text.from_ansi(self._printed, no_wrap=True, overflow="ellipsis")
        self._live.update(late.Group(late.Text.from_ansi(heading), body), refresh=True)
