"""The progress of `consume`, on stderr."""

from __future__ import annotations

import os
import stat
import sys

import click

from odradek.cli.records.reading import Watcher
from odradek.cli.shared.progress import ProgressBar


class ReadProgress(ProgressBar, Watcher):
    """A bar with the records printed and the share of the offsets passed, and the notes as lines of their own.

    By default it is shown if stdout is a file. A program behind a pipe, as `jq` or `less`, mostly prints on the same
    terminal, and the bar would be in its output. `is_wanted` overrides the default.
    """

    def __init__(self, *, is_wanted: bool | None) -> None:
        is_shown = _is_file(sys.stdout.fileno()) if is_wanted is None else is_wanted
        super().__init__("Reading", total=None, is_shown=is_shown)

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def total(self, offsets: int) -> None:
        self.set_total(offsets)

    def read(self, records: int, offsets: int) -> None:
        self.advance(records, part=offsets)


def _is_file(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode)
