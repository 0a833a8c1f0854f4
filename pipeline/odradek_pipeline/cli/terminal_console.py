"""A run's output at a terminal: bars and a table."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from odradek_pipeline.runs.steps import FINISHED, Steps
from odradek_pipeline.work.command import Summary

_POLL_SECONDS: Final = 0.5
# Of a line of a table: more than any has.
_CHARACTERS_MAX: Final = 100_000


class TerminalConsole:
    """A bar of Spark's tasks while they run, and a table at the end."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._row = self._progress.add_task("starting", total=None)
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    @property
    def steps(self) -> Steps:
        return self._show_step

    def __enter__(self) -> TerminalConsole:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def watch(self, spark: Any) -> None:
        self._watcher = threading.Thread(target=self._poll, args=(spark.sparkContext,), daemon=True)
        self._watcher.start()

    def notice(self, text: str) -> None:
        self._progress.console.print(text, style="yellow", highlight=False)

    def show_summary(self, made: Summary) -> None:
        self._end_bar()
        # A terminal breaks a line that is too long for it. Rich would shorten cells, and `replay` needs a whole id.
        console = Console(width=_CHARACTERS_MAX)
        console.print(made.title, style="bold", highlight=False)
        facts = Table.grid(padding=(0, 2))
        for name, value in made.facts.items():
            facts.add_row(name.replace("_", " "), _format_value(value))
        console.print(facts)
        if made.rows_name and not made.rows:
            console.print(f"no {made.rows_name.replace('_', ' ')}", highlight=False)
        if made.rows:
            table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
            for name, value in made.rows[0].items():
                table.add_column(
                    name.replace("_", " "), justify="right" if isinstance(value, int) else "left"
                )
            for row in made.rows:
                table.add_row(*map(_format_value, row.values()))
            console.print(table)

    def _show_step(self, name: str, /, **figures: object) -> None:
        said = ", ".join(
            f"{value:,} {key}" if isinstance(value, int) else f"{value} {key}"
            for key, value in figures.items()
        )
        self._progress.update(self._row, description=f"{name}  {said}".rstrip())
        if name == FINISHED:
            self._ended.set()

    def _poll(self, context: Any) -> None:
        """Counts the tasks of the jobs that run; the status tracker is meant for other threads."""
        tracker = context.statusTracker()
        while not self._ended.wait(_POLL_SECONDS):
            done = total = 0
            for stage_id in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
            self._progress.update(self._row, completed=done, total=total or None)

    def _end_bar(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join(timeout=2)
        self._progress.stop()


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
